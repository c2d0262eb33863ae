"""Capture: prepares the source, registers its connector, and keeps the connector's task running."""
