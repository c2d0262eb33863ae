"""Schemas that the registry can't read itself."""

from typing import Any

import fastavro
import pytest

from pipelines.kafka.registry import with_valid_defaults


@pytest.mark.parametrize(
    ("label", "kind", "default", "valid"),
    [
        ("NaN", [{"type": "float", "connect.default": "NaN"}, "null"], "NaN", 0),
        ("an infinity that can't be null", "double", "-Infinity", 0),
        ("a number", ["double", "null"], 1.5, 1.5),
        ("none", ["null", "double"], None, None),
        ("a text that looks alike", ["string", "null"], "NaN", "NaN"),
    ],
)
def test_a_default_that_json_has_not_is_made_one_that_avro_takes(
    label: str, kind: Any, default: Any, valid: Any
) -> None:
    value = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": kind, "default": default}]}
    schema = {"type": "record", "name": "E", "fields": [{"name": "before", "type": ["null", value], "default": None}]}
    found = with_valid_defaults(schema)
    assert found["fields"][0]["type"][1]["fields"][0]["default"] == valid
    fastavro.parse_schema(found)
