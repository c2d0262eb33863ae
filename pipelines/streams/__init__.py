"""The process beside the mirror: event streams and derived tables, kept up to date and in order."""
