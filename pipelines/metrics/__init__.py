"""Metrics: which there are, what a process knows of itself in them, and where they are asked for."""
