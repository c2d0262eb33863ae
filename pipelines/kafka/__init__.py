"""Read what topics hold, as raw records: offsets and bytes."""
