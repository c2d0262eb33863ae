"""Operations: what the command line does to the lake, each in a folder of its own, and the trail of who did it."""
