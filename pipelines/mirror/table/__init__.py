"""One table's share of a batch, brought into the table in commits."""
