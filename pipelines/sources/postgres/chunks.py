"""Cut a table into chunks by its key, in an order that PostgreSQL and the lake's readers share."""

from dataclasses import dataclass

import psycopg
from psycopg import sql

from pipelines.sources.base.tables import Key, KeyRange, SourceTable, TableColumn
from pipelines.sources.postgres.reader import rendered, table_name, table_rows

# Types that every reader puts in the same order. Texts are, where they are compared byte by byte.
_SAME_ORDER = ("INTEGER", "BIGINT", "BOOLEAN", "UUID", "BLOB", "DATE", "TIMESTAMP", "DECIMAL")
_TEXTS = ("text", "varchar")

# Texts that the source compares byte by byte of its own accord, so that the key's index is in that order.
_BYTEWISE = """
SELECT a.attname FROM pg_attribute a
JOIN pg_collation c ON c.oid = a.attcollation
JOIN pg_database d ON d.datname = current_database()
WHERE a.attrelid = %s::regclass AND CASE c.collname
  WHEN 'default' THEN coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', d.datcollate)
                      IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
  ELSE c.collname IN ('C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8', 'pg_c_utf8') END"""


@dataclass(frozen=True)
class KeyOrder:
    """The order of a table's keys. ``expressions``: SQL by which the source puts its key columns in it."""

    columns: tuple[TableColumn, ...]
    expressions: tuple[sql.Composable, ...]

    def condition(self, within: KeyRange) -> sql.Composable:
        """Return SQL for "the row's key is in this range"."""
        row = sql.SQL("({})").format(sql.SQL(", ").join(self.expressions))
        bounds = ((">", within.after), ("<=", within.upto))
        parts = [sql.SQL("{} {} {}").format(row, sql.SQL(sign), self._row(key)) for sign, key in bounds if key]
        return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")

    def _row(self, key: Key) -> sql.Composable:
        texts = [f"\\x{text}" if c.base == "bytea" else text for c, text in zip(self.columns, key, strict=True)]
        return sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, texts)))


def key_order(connection: psycopg.Connection, table: SourceTable) -> KeyOrder | None:
    """Return the order of the table's keys, or None where it has no key, or one whose order readers don't share."""
    by_name = {column.name: column for column in table.columns}
    columns = tuple(by_name[name] for name in table.key)
    if not columns or not all(map(_has_order, columns)):
        return None
    name = table_name(table).as_string(connection)
    bytewise = {name for (name,) in connection.execute(_BYTEWISE, (name,)).fetchall()}
    return KeyOrder(columns, tuple(_expression(column, column.name in bytewise) for column in columns))


def end_of_chunk(
    connection: psycopg.Connection, table: SourceTable, order: KeyOrder, after: Key | None, rows: int
) -> Key | None:
    """Return the key of the last of so many rows after ``after``; None: there are fewer than that left."""
    # Ordered before it is rendered: ORDER BY would take a rendered column for the one of that name.
    last = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY {} OFFSET {} LIMIT 1").format(
        table_rows(table), order.condition(KeyRange(after)), sql.SQL(", ").join(order.expressions), rows - 1
    )
    texts = sql.SQL(", ").join(sql.SQL("({})::text").format(rendered(column)) for column in order.columns)
    query = sql.SQL("SELECT {} FROM ({}) s").format(texts, last)
    row = connection.execute(query).fetchone()
    return None if row is None else tuple(row)


def has_more_rows(connection: psycopg.Connection, table: SourceTable, rows: int) -> bool:
    """Return whether the table has more rows than that; stops counting there."""
    query = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) s").format(table_rows(table), rows + 1)
    row = connection.execute(query).fetchone()
    return row is not None and row[0] > rows


def _has_order(column: TableColumn) -> bool:
    if column.is_array:
        return False
    return column.is_enum or column.base in _TEXTS or (column.duckdb_type or "").startswith(_SAME_ORDER)


def _expression(column: TableColumn, bytewise: bool) -> sql.Composable:
    name = sql.Identifier(column.name)
    if column.is_enum or (column.base in _TEXTS and not bytewise):
        return sql.SQL('({}::text COLLATE "C")').format(name)
    return name
