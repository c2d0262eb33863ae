"""Continuous verification: compares source and lake chunk by chunk, gently, for ever; heals what differs on request."""
