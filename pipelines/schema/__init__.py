"""The columns that a table has and shall have. No I/O."""
