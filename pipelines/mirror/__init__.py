"""The mirror process: one streaming query, batch after batch, over the topics of many tables."""
