"""Behaviour that every runner shares, on real processes and containers."""
