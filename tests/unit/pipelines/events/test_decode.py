"""Which rows and which problems the bytes of a stream make."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.events.columns import avro_columns, json_columns, merged
from pipelines.events.decode import StreamSchema
from pipelines.events.plan import PROBLEM, stream_rows
from pipelines.protection.columns import ProtectedColumns
from pipelines.spark.dataframes import from_rows
from pipelines.specs.events import EventSpec
from tests.unit.pipelines.change_events import wire

CAME = datetime(2026, 3, 1, 12, tzinfo=UTC)
RAW = "key binary, value binary, partition int, offset long, headers array<struct<key:string,value:binary>>, timestamp timestamp, tombstones int"  # noqa: E501
JSON_SCHEMA = {
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
        "place": {"properties": {"x": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}, "more": {"type": "object"},
    },
}  # fmt: skip
AT = "2026-03-01T11:59:59.123456Z"
V1 = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "place", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}},
]}  # fmt: skip
V2 = {"type": "record", "name": "R", "fields": [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}, {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "place", "type": {"type": "record", "name": "P", "fields": [
        {"name": "y", "type": ["null", "string"]}, {"name": "x", "type": "long"}]}},
]}  # fmt: skip


def spec(**more: Any) -> EventSpec:
    event_time = {"column": "at", "earliest": "1 day", "latest": "1 minute"}
    return EventSpec(**{"kind": "events", "table": "e.t", "topic": "t", "event_time": event_time, **more})


def decoded(
    spark: SparkSession, stream: EventSpec, schema: StreamSchema, *values: bytes | None, headers: Any = None
) -> list[dict[str, Any]]:
    records = [(b"k", value, 0, offset, headers, CAME, 0) for offset, value in enumerate(values)]
    raw = from_rows(spark, records, RAW)
    rows = stream_rows(raw, spark, stream, schema, TopicOutcome("t"), None, ProtectedColumns())
    return [row.asDict(recursive=True) for row in rows.orderBy(F.col("_kafka_offset")).collect()]


def plain(spark: SparkSession, *values: bytes | None, **more: Any) -> list[dict[str, Any]]:
    return decoded(spark, spec(), StreamSchema(json_columns(JSON_SCHEMA), {}, {}), *values, **more)


PROBLEMS = {
    "no JSON": (b"\xff\x00nothing", "not_json"),
    "cut short": (b'{"id": 1, "at": "2026', "not_json"),
    "empty": (b"", "not_json"),
    "another type": (json.dumps({"id": "one", "at": AT}).encode(), "not_json"),
    "a type within": (json.dumps({"id": 1, "at": AT, "place": {"x": "far"}}).encode(), "not_json"),
    "a number too large": (json.dumps({"id": 2**63, "at": AT}).encode(), "not_json"),
    "no object": (b"[1, 2]", "not_json"),
    "a required value is missing": (json.dumps({"at": AT}).encode(), "missing_value: id"),
    "no time": (json.dumps({"id": 1}).encode(), "missing_value: at"),
    "no such time": (json.dumps({"id": 1, "at": "yesterday"}).encode(), "not_json"),
    "long ago": (json.dumps({"id": 1, "at": "2026-02-28T11:59:59Z"}).encode(), "too_old"),
    "not yet": (json.dumps({"id": 1, "at": "2026-03-01T12:01:01Z"}).encode(), "in_the_future"),
}


@pytest.fixture(scope="module")
def problems(spark: SparkSession) -> list[str | None]:
    return [row[PROBLEM] for row in plain(spark, *(value for value, _ in PROBLEMS.values()))]


@pytest.mark.parametrize("number", range(len(PROBLEMS)), ids=list(PROBLEMS))
def test_problem(problems: list[str | None], number: int) -> None:
    assert problems[number] == list(PROBLEMS.values())[number][1]


def test_json(spark: SparkSession) -> None:
    event = {
        "id": 7,
        "at": AT,
        "place": {"x": 1, "tags": ["a", None]},
        "labels": {"k": "v"},
        "more": {"b": [1]},
        "z": 1,
    }
    (row, bare) = plain(spark, json.dumps(event).encode(), None, json.dumps({"id": 8, "at": AT}).encode())
    assert row[PROBLEM] is None
    assert (row["id"], row["place"], row["labels"]) == (7, {"x": 1.0, "tags": ["a", None]}, {"k": "v"})
    assert json.loads(row["more"]) == {"b": [1]}
    assert (bare["id"], bare["place"], bare["_kafka_offset"]) == (8, None, 2)


def test_key_and_headers_are_columns_where_they_are_wanted(spark: SparkSession) -> None:
    headers = [("h", b"first"), ("raw", b"\xff\xfe"), ("h", "späť".encode())]
    schema = StreamSchema(json_columns(JSON_SCHEMA), {}, {})
    stream = spec(key="_key", headers="_headers")
    (row,) = decoded(spark, stream, schema, json.dumps({"id": 1, "at": AT}).encode(), headers=headers)
    assert (row["_key"], row["_headers"]) == ("k", {"h": "späť", "raw": "FFFE"})


def test_registered_json_names_its_schema(spark: SparkSession) -> None:
    schema = StreamSchema(json_columns(JSON_SCHEMA), {3: ("", ())}, {4: "schema_withheld: add z"})
    body = json.dumps({"id": 1, "at": AT}).encode()
    frames = [b"\0" + identifier.to_bytes(4, "big") + body for identifier in (3, 4, 5)]
    found = decoded(spark, spec(), schema, *frames, body)
    assert [row[PROBLEM] for row in found] == [None, "schema_withheld: add z", "unknown_schema: 5", "no_schema_id"]


def test_avro_is_read_by_each_record_s_own_schema(spark: SparkSession) -> None:
    columns = merged(avro_columns(V1), avro_columns(V2))
    schema = StreamSchema(
        columns, {1: (json.dumps(V1), avro_columns(V1)), 2: (json.dumps(V2), avro_columns(V2))}, {}
    )  # fmt: skip
    moment = CAME - timedelta(seconds=1)
    older = wire(1, json.dumps(V1), {"id": 1, "at": moment, "place": {"x": 5}})
    newer = wire(2, json.dumps(V2), {"id": 2, "at": moment, "note": "n", "place": {"y": "why", "x": 6}})
    broken = older[:-3]
    one, two, three = decoded(spark, spec(format="avro"), schema, older, newer, broken)
    assert (one["id"], one["note"], one["place"]) == (1, None, {"y": None, "x": 5})
    assert (two["id"], two["note"], two["place"]) == (2, "n", {"y": "why", "x": 6})
    assert three[PROBLEM] == "undecodable"
