"""Tests of the toolchain and of the server rooms that need no server."""
