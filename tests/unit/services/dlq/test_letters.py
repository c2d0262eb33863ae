"""How a person names a key."""

import json
from typing import Any

import pytest

from pipelines.avro import Decoder
from services.dlq.letters import key_is
from tests.unit.pipelines.events import key_schema, wire

SINGLE, DOUBLE = key_schema("t", {"id": "long"}), key_schema("t", {"order_id": "long", "line": "int"})
SCHEMAS = {1: SINGLE, 2: DOUBLE, 3: json.dumps("string")}


class Registry:
    def schema(self, identifier: int) -> str:
        return SCHEMAS[identifier]


def key(identifier: int, value: Any) -> bytes:
    return wire(identifier, SCHEMAS[identifier], value)


CASES = [
    ("a single column's value", key(1, {"id": 7}), "7", True),
    ("another value", key(1, {"id": 70}), "7", False),
    ("JSON", key(1, {"id": 7}), '{"id": 7}', True),
    ("JSON of two columns, in any order", key(2, {"order_id": 7, "line": 1}), '{"line": 1, "order_id": 7}', True),
    ("a value of two columns' key", key(2, {"order_id": 7, "line": 1}), "7", False),
    ("bytes", key(1, {"id": 7}), "0x" + key(1, {"id": 7}).hex(), True),
    ("other bytes", key(1, {"id": 7}), "0x00", False),
    ("text", key(3, "abc"), "abc", True),
    ("what doesn't decode, as text", b"poison", "poison", True),
    ("no key", None, "7", False),
]


@pytest.mark.parametrize(("label", "found", "text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_key_is_named(label: str, found: bytes | None, text: str, expected: bool) -> None:
    assert key_is(found, text, Decoder(Registry())) is expected  # type: ignore[arg-type]
