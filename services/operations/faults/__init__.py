"""Faults by name: what switches them on and off in a running stack, and says which are on."""
