"""Event streams: topics that no database writes, each appended to its table exactly once."""
