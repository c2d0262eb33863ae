"""A table follows its source: columns, key, defaults, protection and description.

What the table's columns are of the source's is in its properties, and so is the history of its changes. They change in
the same commit as the schema.
"""
