"""What columns a table has and shall have. No I/O."""
