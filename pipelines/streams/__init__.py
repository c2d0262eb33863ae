"""The process beside the mirror: it brings event streams in, and keeps their tables in order."""
