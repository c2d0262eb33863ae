"""A table follows its source: columns, key, defaults, protection and description.

A table's properties say which of the source's columns its own are, and have the history of its changes. They change in
the same commit as the schema.
"""
