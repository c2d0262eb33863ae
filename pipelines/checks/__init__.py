"""Checks: what contracts promise, asked of the lake's tables from time to time, beside the mirror."""
