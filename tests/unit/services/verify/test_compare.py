"""The comparison in DuckDB: labelled pairs of a source's text and a lake's value."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pipelines.sources.base.tables import SourceTable
from pipelines.sources.postgres.published import table_column
from quality.contract import Column, Contract
from services.verify.columns import ComparedColumn, plan
from services.verify.compare import Comparison, compare
from services.verify.fingerprint import fingerprint_lake, fingerprint_source
from services.verify.staging import LAKE, stage_source

ID = ComparedColumn(table_column("id", "bigint", "int8"), "BIGINT", "BIGINT")
MONEY = table_column("v", "numeric(10,2)", "numeric", typmod=((10 << 16) | 2) + 4)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        yield opened


def staged(
    connection: duckdb.DuckDBPyConnection,
    column: ComparedColumn,
    source: list[tuple[str, str | None]],
    lake: str,
    key: tuple[str, ...] = ("id",),
) -> Comparison:
    batch = pa.record_batch([[row[0] for row in source], [row[1] for row in source]], ["c0", "c1"])
    batch = batch.cast(pa.schema([("c0", pa.string()), ("c1", pa.string())]))
    stage_source(connection, [ID, column], iter([batch]), lambda _: None)
    connection.execute(f"CREATE OR REPLACE VIEW {LAKE} AS SELECT * FROM (VALUES {lake}) AS l(c0, c1)")
    return compare(connection, [ID, column], key, 5)


def of(base: str, kind: str, array: bool = False) -> ComparedColumn:
    return ComparedColumn(table_column("v", base, base, is_array=array), kind, kind)


def nulled() -> ComparedColumn:
    promised = Column("v", options={"pattern": "^[a-z]+$"}, on_violation="null")
    return ComparedColumn(table_column("v", "text", "text"), "VARCHAR", "VARCHAR", promised)


PAIRS: list[tuple[str, ComparedColumn, str | None, str, bool]] = [
    ("null is null", of("text", "VARCHAR"), None, "NULL::VARCHAR", True),
    ("null isn't empty", of("text", "VARCHAR"), "", "NULL::VARCHAR", False),
    ("text", of("text", "VARCHAR"), "é\n😀", "'é' || chr(10) || '😀'", True),
    ("hstore", of("hstore", "VARCHAR"), '"a"=>"1", "b"=>NULL', """'{"b": null, "a": "1"}'""", True),
    ("hstore, another value", of("hstore", "VARCHAR"), '"a"=>"1"', """'{"a": "2"}'""", False),
    ("hstore, a pair less", of("hstore", "VARCHAR"), '"a"=>"1", "b"=>NULL', """'{"a": "1"}'""", False),
    ("hstore, null isn't a word", of("hstore", "VARCHAR"), '"a"=>NULL', """'{"a": "NULL"}'""", False),
    ("hstore, none", of("hstore", "VARCHAR"), "", "'{}'", True),
    ("hstore, none isn't null", of("hstore", "VARCHAR"), "", "NULL::VARCHAR", False),
    (
        "hstore, odd words",
        of("hstore", "VARCHAR"),
        '"é"=>"1, \\"z\\"=>2", "=>k"=>"x\\"=>\\\\", "n\nl"=>""',
        """'{"=>k": "x\\"=>\\\\", "n\\nl": "", "é": "1, \\"z\\"=>2"}'""",
        True,
    ),
    ("trailing blank", of("bpchar", "VARCHAR"), "a ", "'a'", False),
    ("decimal", ComparedColumn(MONEY, "DECIMAL(10,2)", "DECIMAL(10,2)"), "1.50", "1.50::DECIMAL(10,2)", True),
    (
        "decimal of a wider lake",
        ComparedColumn(MONEY, "DECIMAL(10,2)", "DECIMAL(12,3)"),
        "1.50",
        "1.501::DECIMAL(12,3)",
        False,
    ),
    (
        "decimal of a wider lake, the same",
        ComparedColumn(MONEY, "DECIMAL(10,2)", "DECIMAL(12,3)"),
        "100.50",
        "100.500::DECIMAL(12,3)",
        True,
    ),
    ("decimal without a fraction", of("numeric", "DECIMAL(5,0)"), "100", "1::DECIMAL(5,0)", False),
    (
        "decimal NaN isn't null",
        ComparedColumn(MONEY, "DECIMAL(10,2)", "DECIMAL(10,2)"),
        "NaN",
        "NULL::DECIMAL(10,2)",
        False,
    ),
    ("double", of("float8", "DOUBLE"), "0.1", "0.1::DOUBLE", True),
    ("double, one bit off", of("float8", "DOUBLE"), "0.1", "0.10000000000000002::DOUBLE", False),
    ("double NaN", of("float8", "DOUBLE"), "NaN", "'nan'::DOUBLE", True),
    ("double infinity", of("float8", "DOUBLE"), "-Infinity", "'-inf'::DOUBLE", True),
    ("double minus zero", of("float8", "DOUBLE"), "-0", "0::DOUBLE", False),
    ("real", of("float4", "FLOAT"), "0.1", "0.1::FLOAT", True),
    ("boolean", of("bool", "BOOLEAN"), "t", "true", True),
    ("bytes", of("bytea", "BLOB"), "00ff", "'\\x00\\xFF'::BLOB", True),
    ("no bytes aren't null", of("bytea", "BLOB"), "", "NULL::BLOB", False),
    ("date", of("date", "DATE"), "1969-12-31", "DATE '1969-12-31'", True),
    ("date before Christ", of("date", "DATE"), "0044-03-15 BC", "DATE '0044-03-15 (BC)'", True),
    (
        "microseconds",
        of("timestamp", "TIMESTAMP"),
        "2026-01-01 00:00:00.000001",
        "TIMESTAMP '2026-01-01 00:00:00'",
        False,
    ),
    (
        "zone",
        of("timestamptz", "TIMESTAMP WITH TIME ZONE"),
        "2026-01-01 00:00:00+00",
        "'2026-01-01 01:00:00+01'::TIMESTAMPTZ",
        True,
    ),
    (
        "uuid",
        of("uuid", "UUID"),
        "00000000-0000-0000-0000-00000000000a",
        "'00000000-0000-0000-0000-00000000000A'::UUID",
        True,
    ),
    ("list", of("text", "VARCHAR[]", True), '["a",null,""]', "['a', NULL, '']", True),
    ("list order", of("text", "VARCHAR[]", True), '["a","b"]', "['b', 'a']", False),
    ("empty list isn't null", of("int4", "INTEGER[]", True), "[]", "NULL::INTEGER[]", False),
    ("list of integers", of("int4", "INTEGER[]", True), '["1",null]', "[1, NULL]", True),
    ("list of lists fits no list", of("int4", "INTEGER[]", True), '[["1"],["2"]]', "[NULL, NULL]::INTEGER[]", False),
    ("list of bytes", of("bytea", "BLOB[]", True), '["\\\\x00ff",null]', "['\\x00\\xFF'::BLOB, NULL]", True),
    ("null by contract", nulled(), "7", "NULL::VARCHAR", True),
    ("null by contract, of a value that keeps it", nulled(), "a", "NULL::VARCHAR", False),
    ("not nulled yet", nulled(), "7", "'7'", True),
    ("another value than the source's", nulled(), "a", "'b'", False),
    ("list of doubles", of("float8", "DOUBLE[]", True), '["NaN","-0"]', "['nan'::DOUBLE, 0::DOUBLE]", False),
]


@pytest.mark.parametrize(("label", "column", "text", "value", "equal"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_values(
    connection: duckdb.DuckDBPyConnection, label: str, column: ComparedColumn, text: str | None, value: str, equal: bool
) -> None:
    assert staged(connection, column, [("1", text)], f"(1::BIGINT, {value})").differing == (0 if equal else 1)
    keyless = staged(connection, column, [("1", text)], f"(1::BIGINT, {value})", key=())
    assert (keyless.missing, keyless.extra) == ((0, 0) if equal else (1, 1))
    batch = pa.record_batch([pa.array(["1"], pa.string()), pa.array([text], pa.string())], ["c0", "c1"])
    source = fingerprint_source(connection, [ID, column], iter([batch]), lambda _: None)
    assert (fingerprint_lake(connection, [ID, column], False, lambda _: None) == source) is equal


def test_kinds_of_difference(connection: duckdb.DuckDBPyConnection) -> None:
    found = staged(
        connection,
        of("text", "VARCHAR"),
        [("1", "a"), ("2", "b"), ("3", "c")],
        "(1, 'a'), (1, 'a'), (2, 'x'), (9, 'z')",
    )
    assert (found.differing, found.missing, found.extra, found.duplicates) == (1, 1, 1, 1)
    named = {example.kind: (example.key, example.values) for example in found.examples}
    assert named["differs"] == ({"id": "2"}, {"v": ("b", "x")})
    assert named["missing"][0] == {"id": "3"}
    assert named["extra"][0] == {"id": "9"}
    assert named["duplicate"][0] == {"id": "1"}


def test_multisets_count(connection: duckdb.DuckDBPyConnection) -> None:
    found = staged(connection, of("text", "VARCHAR"), [("1", "a")] * 3, "(1, 'a'), (1, 'b')", key=())
    assert (found.missing, found.extra) == (2, 1)
    assert [(example.kind, example.count) for example in found.examples] == [("missing", 2), ("extra", 1)]


def test_every_column_is_compared_or_has_a_reason() -> None:
    columns: list[Any] = [
        table_column("id", "bigint", "int8"),
        table_column("twice", "bigint", "int8", generated=True),
        table_column("shape", "vector(3)", "vector"),
        table_column("place", "geometry", "geometry"),
        table_column("gone", "text", "text"),
        table_column("n", "bigint", "int8"),
    ]
    lake = {"id": "BIGINT", "shape": "VARCHAR", "n": "VARCHAR", "old": "VARCHAR", "_lsn": "BIGINT"}
    found = plan(SourceTable("public", "t", tuple(columns), ("id",)), lake, ("id",), {})
    assert [column.name for column in found.compared] == ["id"]
    assert set(found.not_compared) == {"twice", "shape", "place", "old"}
    assert [problem.split()[1] for problem in found.problems] == ["gone", "n"]


@pytest.mark.parametrize("action", ["null", "warn"])
def test_a_contract_that_nulls_is_compared_with(action: Any) -> None:
    promised = Column("v", options={"maxLength": 3}, on_violation=action)
    table = SourceTable("public", "t", (table_column("v", "text", "text"),), ())
    (found,) = plan(table, {"v": "VARCHAR"}, (), {}, Contract(("public", "t"), "1", "active", (promised,))).compared
    assert found.promised == (promised if action == "null" else None)


def test_another_key_is_a_problem() -> None:
    found = plan(SourceTable("public", "t", (table_column("id", "int", "int4"),), ("id",)), {"id": "INTEGER"}, (), {})
    assert found.problems == ("the key is (id) in the source and none in the lake",)
