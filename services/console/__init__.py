"""The console: pages about the whole stack, and what it sees of it as metrics."""
