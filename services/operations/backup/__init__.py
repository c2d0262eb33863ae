"""Backups of a lakehouse, and what they bring back."""
