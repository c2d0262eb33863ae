"""Dataset names, OpenLineage facets, emitting and storing them. Empty until lineage arrives."""
