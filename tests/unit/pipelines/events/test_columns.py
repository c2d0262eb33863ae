"""What columns a stream's schemas make, and which schemas make none."""

from typing import Any

import pytest

from pipelines.events.columns import Column, NoColumns, avro_columns, json_columns, merged, spec_columns
from pipelines.schema.lake_types import printed
from pipelines.specs.events import EventSpec


def one(schema: Any, **root: Any) -> str:
    (column,) = json_columns({"properties": {"a": schema}, **root})
    return printed(column.iceberg)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"type": "integer"}, "long"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "string", "format": "date-time"}, "timestamptz"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "array", "items": {"type": "integer"}}, "list<long>"),
        ({"type": "object", "properties": {"b": {"type": "array", "items": {"type": "string"}}}}, "struct<b: list<string>>"),  # noqa: E501
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string, double>"),
        ({"type": "object"}, "string"),
        ({"oneOf": [{"type": "null"}, {"properties": {"b": {"type": "integer"}}}]}, "struct<b: long>"),
    ],
)  # fmt: skip
def test_a_json_schema_s_types(schema: Any, kind: str) -> None:
    assert one(schema) == kind


def test_references_within_the_schema_are_followed() -> None:
    assert one({"$ref": "#/$defs/place"}, **{"$defs": {"place": {"properties": {"x": {"type": "number"}}}}}) == (
        "struct<x: double>"
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": ["string", "integer"]}, "a is of several types"),
        ({"type": "array"}, "a is an array whose items have no schema"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "a may be one of 2 things"),
        ({"$ref": "other.json"}, "a refers to other.json, which isn't in the schema itself"),
        ({"$ref": "#/$defs/a"}, "a has no schema"),
        ({"type": "object", "properties": {"b": {"type": "null"}}}, "a.b has no type that a column can have"),
        ({}, "a has no type"),
    ],
)
def test_what_no_column_can_hold_is_named(schema: Any, why: str) -> None:
    with pytest.raises(NoColumns, match=why.replace("(", r"\(")):
        one(schema)


def test_what_is_required_is() -> None:
    schema = {
        "required": ["a", "b"],
        "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "string"}},
    }
    assert [(c.name, c.required) for c in json_columns(schema)] == [("a", True), ("b", False), ("c", False)]


@pytest.mark.parametrize(
    ("schema", "kind", "required"),
    [
        ("long", "long", True),
        (["null", "string"], "string", False),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamptz", True),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp", True),
        ({"type": "int", "logicalType": "date"}, "date", True),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9, 2)", True),
        ({"type": "string", "logicalType": "uuid"}, "string", True),
        ({"type": "enum", "name": "E", "symbols": ["x"]}, "string", True),
        ({"type": "fixed", "name": "F", "size": 4}, "binary", True),
        ({"type": "array", "items": ["null", "double"]}, "list<double>", True),
        ({"type": "map", "values": "int"}, "map<string, int>", True),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "float"}]}, "struct<x: float>", True),
    ],
)
def test_an_avro_schema_s_types(schema: Any, kind: str, required: bool) -> None:
    (column,) = avro_columns({"type": "record", "name": "T", "fields": [{"name": "a", "type": schema}]})
    assert (printed(column.iceberg), column.required) == (kind, required)


def test_a_named_avro_type_is_known_again() -> None:
    point = {"type": "record", "name": "P", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": point}, {"name": "b", "type": "n.P"}]
    assert {printed(c.iceberg) for c in avro_columns({"type": "record", "name": "T", "fields": fields})} == {
        "struct<x: int>"
    }


def test_a_union_has_no_column() -> None:
    with pytest.raises(NoColumns, match="a is a union of 2 types"):
        avro_columns({"type": "record", "name": "T", "fields": [{"name": "a", "type": ["int", "string"]}]})


def test_schemas_of_one_stream_are_merged() -> None:
    older = json_columns({"required": ["a"], "properties": {
        "a": {"type": "integer"}, "gone": {"type": "string"},
        "s": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
    }})  # fmt: skip
    newer = json_columns({"required": ["new"], "properties": {
        "new": {"type": "string"}, "a": {"type": "number"},
        "s": {"type": "object", "properties": {"z": {"type": "boolean"}, "x": {"type": "integer"}}},
    }})  # fmt: skip
    assert [(c.name, printed(c.iceberg), c.required) for c in merged(older, newer)] == [
        ("new", "string", True), ("a", "double", False), ("s", "struct<z: boolean, x: long, y: string>", False),
        ("gone", "string", False),
    ]  # fmt: skip


def spec(**more: Any) -> EventSpec:
    return EventSpec(kind="events", table="e.t", topic="t", event_time={"column": "at"}, **more)


def test_a_spec_may_say_the_columns() -> None:
    found = spec_columns(spec(columns={"at": "timestamptz", "n": "decimal(9,2)", "tags": "list<string>"}))
    assert found == (
        Column("at", "timestamptz"), Column("n", "decimal(9,2)"),
        Column("tags", {"type": "list", "element": "string", "element-required": False}),
    )  # fmt: skip
    assert spec_columns(spec()) is None, "then the registry does"


def test_a_type_that_there_is_not_is_named() -> None:
    with pytest.raises(NoColumns, match="n is 'number', none of boolean, int"):
        spec_columns(spec(columns={"n": "number"}))
