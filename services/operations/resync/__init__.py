"""Resync: makes tables of the lake equal to their source again where events were lost on the way."""
