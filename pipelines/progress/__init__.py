"""How far a pipeline's tables have come, and which of them are held: kept, and told to whoever asks."""
