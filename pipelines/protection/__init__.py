"""Keys and values as contracts want them in the lake."""
