"""What the catalog says of keys, as SQL over an index ``i`` of ``pg_index``.

A source that nobody prepared hasn't the functions of capture.sql, so what reads any source says it here.
"""

# The index doesn't tell rows apart in events: as ``lakehouse.tells_rows_apart`` in capture.sql, the other way round.
MISLEADS = """(NOT i.indimmediate OR EXISTS (
  SELECT FROM pg_attribute g WHERE g.attrelid = i.indrelid AND g.attnum = ANY (i.indkey) AND g.attgenerated <> ''))"""
# The names of the primary key's columns of a table ``c`` of ``pg_class``; null: it has none.
PRIMARY_KEY = """(
  SELECT array_agg(k.attname::text) FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid
  AND k.attnum = ANY (i.indkey) WHERE i.indrelid = c.oid AND i.indisprimary)"""
