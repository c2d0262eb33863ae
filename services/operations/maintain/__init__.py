"""Maintenance, from outside: what tables need, asking the mirror for it, and what was done."""
