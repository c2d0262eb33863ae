"""What the command line does to the lake, an operation a folder, and the trail of who did it."""
