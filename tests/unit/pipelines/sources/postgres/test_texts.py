"""The text that a value is protected by: Spark, which writes the lake, and DuckDB, which verifies, write it alike."""

import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.protection.functions import WRITTEN, has_text
from pipelines.protection.functions import text_of as sparks
from pipelines.sources.debezium.types import FIRST_DAY, FIRST_MICROSECOND, LAST_MICROSECOND
from services.verify.protected_columns import text_of as duckdbs

pytestmark = pytest.mark.slow

# The last day that DuckDB's dates reach.
LAST_DAY = 2_145_042_905
MICROSECONDS = st.integers(FIRST_MICROSECOND, LAST_MICROSECOND - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
# DuckDB makes one with a zone by way of a fraction, which has no room for later ones.
ZONED = st.integers(FIRST_MICROSECOND, 9 * 10**18)
DAYS = st.integers(FIRST_DAY, LAST_DAY)
# Iceberg's type, Spark's type of what is given and what makes the value of it, the same of DuckDB, and what is given.
KINDS: dict[str, tuple[str, str, str, str, str, st.SearchStrategy[Any]]] = {
    "string": ("string", "{}", "VARCHAR", "VARCHAR", "{}", TEXT),
    "uuid": ("string", "{}", "VARCHAR", "UUID", "{}::UUID", st.uuids().map(str)),
    "binary": ("binary", "{}", "BLOB", "BLOB", "{}", st.binary(max_size=9)),
    "boolean": ("boolean", "{}", "BOOLEAN", "BOOLEAN", "{}", st.booleans()),
    "int": ("int", "{}", "INTEGER", "INTEGER", "{}", st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": ("bigint", "{}", "BIGINT", "BIGINT", "{}", st.integers(-(1 << 63), (1 << 63) - 1)),
    "date": ("int", "date_from_unix_date({})", "INTEGER", "DATE", "(DATE '1970-01-01' + {})", DAYS),
    "timestamp": ("bigint", "cast(timestamp_micros({}) as timestamp_ntz)", "BIGINT", "TIMESTAMP", "make_timestamp({})",
                  MICROSECONDS),
    "timestamptz": ("bigint", "timestamp_micros({})", "BIGINT", "TIMESTAMP WITH TIME ZONE",
                    "CAST(make_timestamp({}) AS TIMESTAMPTZ)", ZONED),
    "decimal(12, 9)": ("decimal(12, 9)", "{}", "DECIMAL(12,9)", "DECIMAL(12,9)", "{}",
                       st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-9))),
}  # fmt: skip
ODD: dict[str, list[Any]] = {
    "date": [0, -719_162, -719_163, -719_529, -735_000, 2_932_896, 2_932_897, FIRST_DAY],
    "timestamp": [0, 1, 100_000, -1, 1_000_000, -62_135_596_800_000_000, -62_167_219_200_000_001,
                  253_402_300_800_000_000],
    "timestamptz": [0, 10, -999_999],
    "decimal(12, 9)": [Decimal("0E-9"), Decimal("1E-9"), Decimal("-1.500000000")],
    "string": ["", "\0", "🦊"], "uuid": [str(uuid.UUID(int=0))], "binary": [b"", b"\0\xff"], "boolean": [True, False],
    "int": [0, -1], "long": [-(1 << 63)],
}  # fmt: skip


def written(spark: SparkSession, kind: str, given_values: list[Any]) -> tuple[list[str], list[str]]:
    spark_type, make, duck_type, made_type, duck_make, _ = KINDS[kind]
    rows = spark.createDataFrame([(n, value) for n, value in enumerate(given_values)], f"n int, v {spark_type}")
    text = sparks(F.expr(make.format("v")), kind)
    one = [row.text for row in rows.select("n", text.alias("text")).orderBy("n").collect()]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE given (n INTEGER, v {duck_type})")
        connection.executemany("INSERT INTO given VALUES (?, ?)", list(enumerate(given_values)))
        value = duck_make.format("v")
        other = connection.execute(
            f"SELECT {duckdbs('made', made_type)} FROM (SELECT n, {value} AS made FROM given) ORDER BY n"
        )
        return one, [text for (text,) in other.fetchall()]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_values(spark: SparkSession, kind: str) -> None:
    one, other = written(spark, kind, ODD[kind])
    assert one == other


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_any_values(spark: SparkSession, kind: str, data: st.DataObject) -> None:
    one, other = written(spark, kind, data.draw(st.lists(KINDS[kind][-1], min_size=1, max_size=60)))
    assert one == other


def test_every_type_that_has_a_text_is_among_them() -> None:
    assert set(WRITTEN) <= KINDS.keys()
    assert all(map(has_text, KINDS))
    assert not any(map(has_text, ("float", "double", "list<string>", "fixed[3]", {"type": "list", "element": "int"})))
