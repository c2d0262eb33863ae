"""Find the row that is too large for Kafka, where the connector's task has failed for one.

The message of that failure says how large the record was, and nothing of the row. The log that the slot holds has it;
where the row was read from the table, in a snapshot, the table does.
"""

import struct

import psycopg
from psycopg import sql

from pipelines.sources.base.capture import LargeRow
from pipelines.sources.postgres.capture import PUBLICATION, SLOT
from pipelines.sources.postgres.keys import PRIMARY_KEY

# Of the log; what is asked for comes with the first transactions, since the task couldn't go on.
_MOST_CHANGES = 100_000
_SECONDS_A_TABLE = 60
_IN_THE_LOG = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)
WHERE octet_length(data) > %s AND get_byte(data, 0) IN (68, 73, 85) LIMIT 1"""
_COLUMNS = f"""
SELECT n.nspname || '.' || c.relname, array_agg(a.attname::text ORDER BY a.attnum), {PRIMARY_KEY}
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE c.oid = %s GROUP BY c.oid, n.nspname, c.relname"""
# Rows that are long are stored apart from their table.
_TABLES = f"""
SELECT n.nspname, c.relname, {PRIMARY_KEY}
FROM pg_publication_namespace p JOIN pg_class c ON c.relnamespace = p.pnnspid JOIN pg_namespace n ON n.oid = p.pnnspid
JOIN pg_publication b ON b.oid = p.pnpubid AND b.pubname = %s
WHERE c.relkind = 'r' AND c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0 AND n.nspname <> 'lakehouse'
ORDER BY pg_relation_size(c.reltoastrelid) DESC"""


def find(connection: psycopg.Connection, more_than: int) -> LargeRow | None:
    """Return the first row in the log of which a record has more bytes than that, or one of a table; None: none."""
    try:
        found = connection.execute(_IN_THE_LOG, (SLOT, _MOST_CHANGES, PUBLICATION, more_than)).fetchone()
    except psycopg.errors.ObjectInUse:
        # Its reader is there again.
        found = None
    return _of_the_log(connection, found[0]) if found else _of_a_table(connection, more_than)


def _of_the_log(connection: psycopg.Connection, message: bytes) -> LargeRow | None:
    described = connection.execute(_COLUMNS.encode(), struct.unpack_from(">I", message, 1)).fetchone()
    if described is None:
        return None
    table, columns, key = described
    values = tuple_values(message)
    # Where it has other columns since, the values can't be told apart.
    known = dict(zip(columns, values, strict=True)) if len(columns) == len(values) else {}
    return LargeRow(table, {name: known[name] for name in key or () if known.get(name) is not None}, len(message))


def tuple_values(message: bytes) -> list[str | None]:
    """Return the row of a pgoutput message of an insert, update or delete, as text; None: null, or not in the message.

    Source: PostgreSQL's documentation, "Logical Replication Message Formats". An update may have the old row first.
    """
    at = 5
    values: list[str | None] = []
    while at < len(message):
        (count,) = struct.unpack_from(">H", message, at + 1)
        at, values = at + 3, []
        for _ in range(count):
            kind = message[at : at + 1]
            at += 1
            if kind not in (b"t", b"b"):
                values.append(None)
                continue
            (length,) = struct.unpack_from(">I", message, at)
            values.append(message[at + 4 : at + 4 + length].decode(errors="replace"))
            at += 4 + length
    return values


def _of_a_table(connection: psycopg.Connection, more_than: int) -> LargeRow | None:
    for schema, table, key in connection.execute(_TABLES.encode(), (PUBLICATION,)).fetchall():
        columns = sql.SQL(", ").join([sql.SQL("t.{}::text").format(sql.Identifier(name)) for name in key or ()])
        query = sql.SQL(
            "SELECT octet_length(t::text), ARRAY[{}]::text[] FROM {} t WHERE octet_length(t::text) > %s LIMIT 1"
        )
        with connection.transaction():
            connection.execute(f"SET LOCAL statement_timeout = '{_SECONDS_A_TABLE}s'".encode())
            try:
                with connection.transaction():
                    row = connection.execute(
                        query.format(columns, sql.Identifier(schema, table)), (more_than,)
                    ).fetchone()
            except psycopg.errors.QueryCanceled:
                continue
        if row is not None:
            return LargeRow(f"{schema}.{table}", dict(zip(key or (), row[1], strict=True)), row[0])
    return None
