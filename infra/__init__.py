"""What each server needs to run, and the toolchain that installs it."""
