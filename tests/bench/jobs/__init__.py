"""Spark jobs that are measured beside the mirror; each a process of its own."""
