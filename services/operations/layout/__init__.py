"""Layout: how tables of the lake lie, and how they might better."""
