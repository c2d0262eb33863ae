"""Tables computed from tables: each commit says of which snapshots it is, so that it can be computed again."""
