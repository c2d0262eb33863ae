"""Raw records become admitted change rows, with their statistics."""
