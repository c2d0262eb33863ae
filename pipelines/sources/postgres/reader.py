"""Read the source itself: all rows of a table as text in Arrow batches, of one snapshot.

Every value is rendered by PostgreSQL, in one canonical form a type, so that nothing on the way can round or reinterpret
it. Memory is bounded by the block size, whatever the table's size.
"""

from collections.abc import Iterator, Mapping
from typing import LiteralString

import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv
from psycopg import sql

from pipelines.sources.base.tables import SourceTable, TableColumn
from pipelines.sources.postgres.copy_stream import CopyStream
from pipelines.sources.postgres.snapshot import Snapshot

BLOCK_BYTES = 16 << 20
EVERY_ROW = sql.SQL("true")

# Where it isn't what PostgreSQL prints.
_RENDERED: dict[str, LiteralString] = {
    "bytea": "encode({0}, 'hex')",
    "money": "{0}::numeric",
    "time": "to_char({0}, 'HH24:MI:SS.US')",
    "timetz": "rtrim(rtrim(to_char(({0} AT TIME ZONE 'UTC')::time, 'HH24:MI:SS.US'), '0'), '.') || 'Z'",
    "interval": "'P' || extract(year FROM {0}) || 'Y' || extract(month FROM {0}) || 'M'"
    " || extract(day FROM {0}) || 'DT' || extract(hour FROM {0}) || 'H' || extract(minute FROM {0}) || 'M'"
    " || trim_scale(extract(second FROM {0})) || 'S'",
}

_SESSION = (
    "SET TIME ZONE 'UTC'", "SET datestyle = 'ISO, YMD'", "SET extra_float_digits = 1", "SET bytea_output = 'hex'",
    "SET intervalstyle = 'postgres'", "SET lc_monetary = 'C'", "SET client_encoding = 'UTF8'",
    "SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0",
    # Who holds a snapshot keeps the tables that it has read from being changed. Waiting for another one could be a
    # circle, in which PostgreSQL may end the change after a second.
    "SET lock_timeout = '900ms'",
)  # fmt: skip

# Unlike pg_partition_tree this locks nothing.
_STORAGE = """
WITH RECURSIVE tree AS (
  SELECT %s::regclass::oid AS relation
  UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.relation
  JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
)
SELECT string_agg(coalesce(pg_relation_filenode(relation), 0)::text, ',' ORDER BY relation) FROM tree"""


def rendered(column: TableColumn) -> sql.Composable:
    """Return the SQL that gives a column as canonical text."""
    name = sql.Identifier(column.name)
    if column.is_array and column.base in _RENDERED and column.base != "bytea":
        # The elements of a list of lists are as PostgreSQL prints them: the lake can't hold any.
        return sql.SQL(
            "CASE WHEN array_ndims({0}) > 1 THEN to_json({0}::text[]) WHEN {0} IS NOT NULL THEN"
            " coalesce((SELECT json_agg(({1})::text ORDER BY place)"
            " FROM unnest({0}) WITH ORDINALITY AS e (element, place)), '[]') END"
        ).format(name, sql.SQL(_RENDERED[column.base]).format(sql.Identifier("element")))
    if column.is_array:
        return sql.SQL("to_json({}::text[])").format(name)
    return sql.SQL(_RENDERED.get(column.base, "{0}")).format(name)


def prepare(connection: psycopg.Connection) -> None:
    """Make the session render values canonically, as the connector's does: UTC, ISO dates, shortest exact floats."""
    for statement in _SESSION:
        connection.execute(statement.encode())


def hold_snapshot(connection: psycopg.Connection) -> Snapshot:
    """Open a read-only transaction that sees one state of the source until it ends, and say which state that is."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert row is not None
    return Snapshot.parse(row[0])


def count_rows(connection: psycopg.Connection, table: SourceTable) -> int:
    """Return rows of the table in the connection's snapshot."""
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table_rows(table))).fetchone()
    return int(row[0]) if row else 0


def count_equal(connection: psycopg.Connection, table: sql.Identifier, values: Mapping[str, str]) -> int:
    """Return how many rows have these values, by column, as text; of a table that isn't there 0."""
    where = sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(n), v) for n, v in values.items())
    query = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(table, where)
    try:
        row = connection.execute(query).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row[0]) if row else 0


def storage(connection: psycopg.Connection, table: SourceTable) -> str:
    """Name the files that hold the table now.

    TRUNCATE isn't MVCC-safe: it empties the table for every snapshot, also for one taken earlier; but it changes these
    files, so that a reader can tell.
    """
    row = connection.execute(_STORAGE, (table_name(table).as_string(connection),)).fetchone()
    assert row is not None
    return str(row[0])


def estimate_rows(connection: psycopg.Connection, table: SourceTable) -> int | None:
    """Return PostgreSQL's own estimate, for progress only; None before the first ANALYZE."""
    row = connection.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass",
                             (table_name(table).as_string(connection),)).fetchone()  # fmt: skip
    return int(row[0]) if row and row[0] >= 0 else None


def open_table(connection: psycopg.Connection, table: SourceTable) -> None:
    """Keep the table from being changed until the transaction ends. Raises psycopg.errors.LockNotAvailable."""
    connection.execute(sql.SQL("SELECT FROM {} LIMIT 0").format(table_rows(table)))


def read_rows(
    connection: psycopg.Connection,
    table: SourceTable,
    columns: tuple[TableColumn, ...],
    where: sql.Composable = EVERY_ROW,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the connection's snapshot, as batches of text columns in the order of ``columns``.

    They are ``c0, c1, …`` in the order of ``columns``. A null is a null, an empty text an empty text. Raises
    pyarrow.ArrowInvalid for a row larger than BLOCK_BYTES.
    """
    # A column that is never null comes first: a row of one null column would be an empty line.
    outputs = sql.SQL(", ").join([sql.SQL("1"), *map(rendered, columns)])
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT csv, NULL '')").format(
        outputs, table_rows(table), where
    )
    names = ["present", *(f"c{index}" for index in range(len(columns)))]
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        stream = CopyStream(copy)
        if not stream.has_rows():
            return
        reader = pa_csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=False, check_utf8=False,
            ),
        )  # fmt: skip
        for batch in reader:
            yield batch.drop_columns(["present"])


def table_rows(table: SourceTable) -> sql.Composable:
    """Return what to select the table's rows from: not those of tables that inherit from it."""
    return sql.SQL("{}" if table.partitioned else "ONLY {}").format(table_name(table))


def table_name(table: SourceTable) -> sql.Identifier:
    """Return the table's name in PostgreSQL's SQL, quoted."""
    return sql.Identifier(table.schema, table.name)
