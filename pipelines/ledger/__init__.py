"""What of a topic is in a table, written in the table's own history."""
