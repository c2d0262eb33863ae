"""Where data comes from: names of datasets, OpenLineage events, and the store that keeps and answers them."""
