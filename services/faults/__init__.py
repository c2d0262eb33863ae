"""Faults by name, which a person or a test switches on and off in a running stack, to watch it heal."""
