"""Chunks of a table's keys: PostgreSQL and DuckDB must mean the same rows by a range, whatever the key's type."""

from collections.abc import Iterator

import duckdb
import psycopg
import pytest
from psycopg import sql

from pipelines.sources.base.tables import KeyRange, SourceTable
from pipelines.sources.postgres import published, reader
from pipelines.sources.postgres.chunks import end_of_chunk, key_order
from services.verify.columns import ComparedColumn
from services.verify.ranges import lake_range
from services.verify.staging import SOURCE, stage_source
from tests.integration.postgres import Server

KEYS = {
    "int": ("a int", ["-5", "0", "7", "100", "-2147483648"]),
    "numeric": ("a numeric(10,2)", ["-1.50", "0.01", "99", "100.10"]),
    "text": ("a text", ["", "a", "A", "ab", "a b", "á", "ž", "z", "🐎", "it''s", "1", "10", "9"]),
    "text, collated": ('a text COLLATE "en-x-icu"', ["a", "A", "b", "B", "á", "_", "ž", "z"]),
    "uuid": ("a uuid", ["00000000-0000-4000-8000-000000000000", "7fffffff-0000-4000-8000-000000000000",
                        "80000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"]),
    "bytea": ("a bytea", ["\\x", "\\x00", "\\x7f", "\\x80", "\\xff00"]),
    "date": ("a date", ["0044-03-15 BC", "0001-01-01", "1969-12-31", "2026-03-29", "10000-01-01"]),
    "timestamptz": ("a timestamptz", ["2026-03-29 02:30:00.000001+01", "2026-03-29 02:30:00+02", "0001-01-01 00:00Z"]),
    "boolean": ("a boolean", ["f", "t"]),
    "enum": ("a mood", ["sad", "ok", "happy"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def source(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn(server.new_database("chunks"), "postgres"), autocommit=True) as connection:
        reader.prepare(connection)
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        yield connection


def described(source: psycopg.Connection, name: str) -> SourceTable:
    source.execute("DROP PUBLICATION IF EXISTS p; CREATE PUBLICATION p FOR ALL TABLES")
    return next(table for table in published.captured_tables(source, "p", ("public",)) if table.name == name)


@pytest.mark.parametrize("composite", [False, True], ids=["alone", "with a second column"])
@pytest.mark.parametrize("label", KEYS)
def test_both_sides_have_the_same_rows_in_a_chunk(source: psycopg.Connection, label: str, composite: bool) -> None:
    column, values = KEYS[label]
    source.execute("DROP TABLE IF EXISTS t")
    key = "a, b" if composite else "a"
    source.execute(f"CREATE TABLE t ({column}, b int, PRIMARY KEY ({key}))".encode())
    for value in values:
        for b in (1, 2, 3) if composite else (1,):
            source.execute(sql.SQL("INSERT INTO t VALUES ({}, {})").format(value, b))
    table = described(source, "t")
    order = key_order(source, table)
    assert order is not None
    compared = [ComparedColumn(c, c.duckdb_type or "", c.duckdb_type or "") for c in table.columns]
    after, left = None, len(values) * (3 if composite else 1)
    with duckdb.connect() as lake:
        lake.execute("SET TimeZone = 'UTC'")
        stage_source(lake, compared, reader.read_rows(source, table, table.columns), lambda _: None)
        lake.execute(f"ALTER TABLE {SOURCE} RENAME TO whole")
        while True:
            within = KeyRange(after, end_of_chunk(source, table, order, after, 2))
            rows = stage_source(
                lake, compared, reader.read_rows(source, table, table.columns, order.condition(within)), lambda _: None
            )
            inside = lake_range(within, table.key, compared).rows
            found = lake.execute(f"SELECT COLUMNS(*)::VARCHAR FROM whole WHERE {inside} ORDER BY ALL").fetchall()
            assert found == lake.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {SOURCE} ORDER BY ALL").fetchall()
            left -= rows
            if within.upto is None:
                break
            assert rows == 2
            after = within.upto
    assert left == 0, "every row is in one chunk"


@pytest.mark.parametrize("column", ["a char(5)", "a numeric", "a int[]", "a double precision"])
def test_a_key_without_a_shared_order_is_not_walked(source: psycopg.Connection, column: str) -> None:
    source.execute("DROP TABLE IF EXISTS t")
    source.execute(f"CREATE TABLE t ({column} PRIMARY KEY)".encode())
    assert key_order(source, described(source, "t")) is None


def test_the_keys_index_serves_where_the_source_compares_bytes(source: psycopg.Connection) -> None:
    source.execute("DROP TABLE IF EXISTS t")
    source.execute('CREATE TABLE t (a text COLLATE "C", b text COLLATE "en-x-icu", PRIMARY KEY (a, b))')
    order = key_order(source, described(source, "t"))
    assert order is not None
    shown = order.condition(KeyRange(("x", "y"))).as_string(source)
    assert shown == """("a", ("b"::text COLLATE "C")) > ('x', 'y')"""
