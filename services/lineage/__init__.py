"""The lineage service: tells of what happens in the lake as OpenLineage events, keeps events, and answers."""
