"""A table follows its source: columns, key, defaults, protection and description."""
