"""Offsets and bytes: what topics hold, read as raw records."""
