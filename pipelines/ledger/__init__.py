"""Record how much of a topic is in a table, in the table's own history."""
