"""Records that cannot be merged, and the records of their keys that wait behind them."""
