"""How Debezium's types become the lake's: type and value, one labelled row each."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from pipelines.schema.lake_types import UnsupportedType
from pipelines.schema.versions import Default
from pipelines.sources.debezium.envelope import table_shape
from pipelines.sources.debezium.types import is_unavailable, lake_type
from pipelines.sources.postgres.dialect import POSTGRES
from pipelines.sources.postgres.types import column_default
from tests.unit.pipelines.change_events import value_schema

PLACEHOLDER = "unavailable-0123456789abcdef"


def semantic(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "connect.name": name}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
UTC = dt.UTC


def numeric(precision: int, scale: int) -> dict[str, Any]:
    source = {"type": "NUMERIC", "length": str(precision), "scale": str(scale)}
    named = {f"__debezium.source.column.{key}": value for key, value in source.items()}
    return {"type": "string", "connect.parameters": named}


def bits(name: str, length: int) -> dict[str, Any]:
    source = {"type": name, "length": str(length)}
    named = {f"__debezium.source.column.{key}": value for key, value in source.items()}
    return {"type": "bytes", "connect.name": "io.debezium.data.Bits", "connect.parameters": named}


def source(name: str) -> dict[str, Any]:
    return {"connect.parameters": {"__debezium.source.column.type": name}}


def printed(name: str) -> dict[str, Any]:
    return {"type": "bytes", **source(name)}


def source_text(name: str) -> dict[str, Any]:
    return {"type": "string", **source(name)}


# What the schema log says of domains.
BASES = {"RAW": "BYTEA", "MASK": "BIT", "PRICE": "NUMERIC", "RAWS": "_BYTEA"}


CASES: list[tuple[str, Any, Any, Any, str, Any]] = [
    # label, Avro schema, Iceberg type, decoded value, its Spark type, value in the lake
    ("integer", "int", "int", 7, "int", 7),
    ("bigint, optional", ["null", "long"], "long", 2**62, "bigint", 2**62),
    ("boolean", "boolean", "boolean", True, "boolean", True),
    ("double", "double", "double", -0.5, "double", -0.5),
    ("text", "string", "string", "žlutý 🐎", "string", "žlutý 🐎"),
    ("empty text", "string", "string", "", "string", ""),
    ("jsonb", semantic("string", "io.debezium.data.Json"), "string", '{"a": null}', "string", '{"a": null}'),
    ("enum", semantic("string", "io.debezium.data.Enum"), "string", "paid", "string", "paid"),
    ("bytea", "bytes", "binary", b"\x00\xff", "binary", b"\x00\xff"),
    ("numeric(12,2)", DECIMAL, "decimal(12, 2)", Decimal("-9.90"), "decimal(12,2)", Decimal("-9.90")),
    ("numeric(12,2) as text", numeric(12, 2), "decimal(12, 2)", "-9.90", "string", Decimal("-9.90")),
    ("numeric that isn't a number", numeric(12, 2), "decimal(12, 2)", "NaN", "string", None),
    ("numeric of more digits", numeric(40, 2), "string", "1" * 38 + ".25", "string", "1" * 38 + ".25"),
    ("numeric without bounds", numeric(131089, 0), "string", "NEGATIVE_INFINITY", "string", "-Infinity"),
    ("numeric without bounds, no number", numeric(131089, 0), "string", "NAN", "string", "NaN"),
    ("bit(5)", bits("BIT", 5), "string", b"\x15", "binary", "10101"),
    ("bit(16), whose last bytes the connector drops", bits("BIT", 16), "string", b"\x01", "binary", "0" * 15 + "1"),
    ("bit(70)", bits("BIT", 70), "string", b"\xfe" + b"\xff" * 7 + b"\x3f", "binary", "1" * 69 + "0"),
    ("bit(5), null", ["null", bits("BIT", 5)], "string", None, "binary", None),
    ("varbit, null", ["null", bits("VARBIT", 9)], "string", None, "binary", None),
    ("varbit, from its first 1", bits("VARBIT", 9), "string", b"\x05", "binary", "101"),
    ("varbit, empty", bits("VARBIT", 9), "string", b"", "binary", ""),
    ("int4multirange", printed("INT4MULTIRANGE"), "string", b"{[1,3),[5,8)}", "binary", "{[1,3),[5,8)}"),
    ("composite", printed("PAIR"), "string", b'(1,"a b")', "binary", '(1,"a b")'),
    ("composite of another schema", printed('"sales"."Pair"'), "string", b"(1,)", "binary", "(1,)"),
    ("bytes of an unknown type that are no text", printed("PAIR"), "string", b"\xff", "binary", None),
    ("domain over bytea", printed("RAW"), "binary", b"\xff", "binary", b"\xff"),
    ("domain over bit(3)", bits("MASK", 3), "string", b"\x05", "binary", "101"),
    ("domain over numeric", source_text("PRICE"), "string", "1.50", "string", "1.50"),
    ("array of a domain", {"type": "array", "items": "bytes", **source("_MAIL")},
     {"type": "list", "element": "string", "element-required": False}, [b"a@b"], "array<binary>", ["a@b"]),
    ("numeric[]", {"type": "array", "items": ["null", "string"], **source("_NUMERIC")},
     {"type": "list", "element": "string", "element-required": False}, ["NaN", None], "array<string>", ["NaN", None]),
    ("bytea[]", {"type": "array", "items": ["null", "bytes"], **source("_BYTEA")},
     {"type": "list", "element": "binary", "element-required": False}, [b"\xff", None], "array<binary>",
     [b"\xff", None]),
    ("array domain over bytea[]", {"type": "array", "items": ["null", "bytes"], **source("RAWS")},
     {"type": "list", "element": "binary", "element-required": False}, [b"\xff"], "array<binary>", [b"\xff"]),
    ("numeric rounded before the point", numeric(5, 2046), "string", "1200." + "0" * 2046, "string", "1200"),
    ("date, infinity", semantic("int", "io.debezium.time.Date"), "date", 2_146_033_979, "int", None),
    ("date, -infinity", semantic("int", "io.debezium.time.Date"), "date", -2_147_472_691, "int", None),
    ("timestamp, infinity", semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp", 2**63 - 1, "bigint",
     None),
    ("timestamp, -infinity", semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp", -(2**63), "bigint",
     None),
    ("timestamp of the year 294276, which the connector wraps around",
     semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp", -9_223_372_036_853_775_810, "bigint", None),
    ("timestamp of the year 1", semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp",
     -62_135_596_800_000_000, "bigint", dt.datetime(1, 1, 1)),
    ("time, 24:00:00", semantic("long", "io.debezium.time.MicroTime"), "string", 86_400_000_000, "bigint",
     "24:00:00.000000"),
    ("date[] with infinity", {"type": "array", "items": ["null", semantic("int", "io.debezium.time.Date")]},
     {"type": "list", "element": "date", "element-required": False}, [0, 2_146_033_979, None], "array<int>", None),
    ("date", semantic("int", "io.debezium.time.Date"), "date", -1, "int", dt.date(1969, 12, 31)),
    ("timestamp", semantic("long", "io.debezium.time.MicroTimestamp"), "timestamp", -1, "bigint",
     dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("timestamp(3)", semantic("long", "io.debezium.time.Timestamp"), "timestamp", 1500, "bigint",
     dt.datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ("timestamptz", semantic("string", "io.debezium.time.ZonedTimestamp"), "timestamptz", "2026-03-29T01:59:59.000001Z",
     "string", dt.datetime(2026, 3, 29, 1, 59, 59, 1, UTC)),
    ("time", semantic("long", "io.debezium.time.MicroTime"), "string", 3_661_000_001, "bigint", "01:01:01.000001"),
    ("text[] with null", {"type": "array", "items": ["null", "string"]},
     {"type": "list", "element": "string", "element-required": False}, ["a", None], "array<string>", ["a", None]),
    ("date[]", {"type": "array", "items": ["null", semantic("int", "io.debezium.time.Date")]},
     {"type": "list", "element": "date", "element-required": False}, [0, None], "array<int>",
     [dt.date(1970, 1, 1), None]),
    ("null", ["null", semantic("int", "io.debezium.time.Date")], "date", None, "int", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "avro", "iceberg", "decoded", "spark_type", "expected"), CASES, ids=[c[0] for c in CASES]
)
def test_mapping(
    spark: SparkSession, label: str, avro: Any, iceberg: Any, decoded: Any, spark_type: str, expected: Any
) -> None:
    mapped = lake_type(avro, POSTGRES, BASES)
    assert mapped.iceberg == iceberg
    frame = spark.createDataFrame([Row(value=decoded)], f"value {spark_type}")
    found = frame.select(mapped.convert(F.col("value")).alias("value"))
    if iceberg == "timestamptz":
        assert found.select(F.unix_micros("value")).first()[0] == round(expected.timestamp() * 1_000_000)
    else:
        assert found.first()["value"] == expected


@pytest.mark.parametrize(
    "avro",
    [
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0},
        {"type": "record", "name": "V", "fields": [], "connect.name": "io.debezium.data.VariableScaleDecimal"},
        ["null", "int", "string"],
        {"type": "map", "values": "string"},
    ],
    ids=["39 digits", "numeric without precision", "a union of two types", "a map"],
)
def test_what_the_lake_cannot_hold_is_refused_by_name(avro: Any) -> None:
    with pytest.raises(UnsupportedType, match=r"."):
        lake_type(avro, POSTGRES)


@pytest.mark.parametrize(
    ("source_type", "said"),
    [("VARBIT", "leading zeros"), ("TIMETZ", "offset"), ("_INT4", "more than one dimension"),
     ("_NUMERIC", "more than one dimension"), ("INT4", None), ("BIT", None), ("PAIR", None)],
)  # fmt: skip
def test_what_the_connector_loses_is_told(source_type: str, said: str | None) -> None:
    found = lake_type(printed(source_type), POSTGRES).lost
    assert found is None if said is None else said in str(found)


def test_a_value_out_of_range_becomes_null_so_that_admit_can_reject_it(spark: SparkSession) -> None:
    zoned = lake_type(semantic("string", "io.debezium.time.ZonedTimestamp"), POSTGRES)
    frame = spark.createDataFrame([Row(value="infinity")])
    assert zoned.fallible
    assert frame.select(zoned.convert(F.col("value")).alias("v")).first()["v"] is None


@pytest.mark.parametrize(
    ("label", "avro", "spark_type", "value", "unavailable"),
    [
        ("text left out", "string", "string", PLACEHOLDER, True),
        ("text that only looks alike", "string", "string", PLACEHOLDER + " ", False),
        ("null text", ["null", "string"], "string", None, False),
        ("bytea left out", "bytes", "binary", PLACEHOLDER.encode(), True),
        ("text[] left out", {"type": "array", "items": "string"}, "array<string>", [PLACEHOLDER], True),
        ("text[] with two", {"type": "array", "items": "string"}, "array<string>", [PLACEHOLDER, "x"], False),
        (
            "int[] left out",
            {"type": "array", "items": ["null", "int"]},
            "array<int>",
            [ord(c) for c in PLACEHOLDER],
            True,
        ),
        ("int[] kept", {"type": "array", "items": ["null", "int"]}, "array<int>", [1, None], False),
        ("float8[], which can't be marked", {"type": "array", "items": "double"}, "array<double>", [0.5], False),
        (
            "boolean[] is never left out",
            {"type": "array", "items": ["null", "boolean"]},
            "array<boolean>",
            [True],
            False,
        ),
        ("a number is never left out", "long", "bigint", 5, False),
    ],
)
def test_unavailable(
    spark: SparkSession, label: str, avro: Any, spark_type: str, value: Any, unavailable: bool
) -> None:
    frame = spark.createDataFrame([Row(value=value)], f"value {spark_type}")
    assert frame.select(is_unavailable(F.col("value"), avro, PLACEHOLDER).alias("v")).first()["v"] is unavailable


@pytest.mark.parametrize(
    ("postgres", "text", "literal"),
    [
        ("int4", "-7", "-7"),
        ("text", "a\nb", "a\nb"),
        ("float4", "NaN", "NaN"),
        ("numeric", "1.50", "1.50"),
        ("numeric", "NaN", None),
        ("numeric", "-Infinity", None),
        ("time", "12:00:00", "12:00:00.000000"),
        ("time", "12:00:00.5", "12:00:00.500000"),
        ("date", "2026-03-29", "2026-03-29"),
        ("date", "infinity", None),
        ("date", "0044-03-15 BC", None),
        ("date", "20000-01-01", None),
        ("timestamptz", "2026-03-29 02:30:00.5+00", "2026-03-29 02:30:00.5+00"),
        ("timestamp", "-infinity", None),
        ("inet", "10.0.0.1/8", "10.0.0.1/8"),
        ("interval", "1 day", None),
        ("money", "$1.00", None),
        ("timetz", "12:00:00+02", None),
        ("bytea", "\\x00", None),
        ("_int4", "{1}", None),
        ("a_domain", "1", None),
    ],
)
def test_a_default_is_made_of_its_text_only_where_events_have_it_so(
    postgres: str, text: str, literal: str | None
) -> None:
    assert column_default(text, postgres) == Default(text, literal)


def test_a_column_that_the_lake_has_no_type_for_is_left_out_of_its_table() -> None:
    point = {"type": "record", "name": "Geometry", "fields": [], "connect.name": "io.debezium.data.geometry.Geometry"}
    columns = {"id": "long", "place": ["null", point], "pair": ["null", printed("PAIR")]}
    shape = table_shape("shop.public.t", ("public", "t"), value_schema("t", columns), POSTGRES)
    assert shape.column_names == ("id", "pair")
    assert shape.left_out == (("place", "io.debezium.data.geometry.Geometry"),)
    assert shape.unexplained == (("pair", "PAIR"),)
