"""How a person names a key, and what is seen of a sealed letter."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from pipelines.kafka.avro import Decoder
from pipelines.protection.crypto import ProtectionKeys
from pipelines.protection.letters import SEALED
from services.cli.dlq import _described
from services.operations.dead_letters.letters import LISTED, key_is, unsealed
from services.operations.dead_letters.replay import Sealed, check_opened
from tests.unit.pipelines.change_events import key_schema, wire

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


def keys_of(secret: str) -> ProtectionKeys:
    keys = ProtectionKeys.of(SecretStr(secret * 8))
    assert keys is not None
    return keys


MINE, OTHER = keys_of("one secret "), keys_of("another one ")
PLAIN = {**dict.fromkeys(LISTED), "topic": "shop.public.t", "partition": 1, "offset": 7, "state": "open",
         "because": None, "closed_at": None}  # fmt: skip


def letter(by: ProtectionKeys) -> dict[str, Any]:
    return {**PLAIN, "key": by.sealed(b"a key", "shop.public.t:1:7:key"), "value": None,
            "headers": [{"key": SEALED, "value": by.fingerprint.encode()}]}  # fmt: skip


@pytest.mark.parametrize(("by", "keys", "sealed"), [(MINE, MINE, False), (MINE, OTHER, True), (MINE, None, True)])
def test_a_sealed_letter_is_opened_by_its_key_only(
    by: ProtectionKeys, keys: ProtectionKeys | None, sealed: bool
) -> None:
    found = unsealed(letter(by), keys)
    assert found["sealed"] is sealed
    assert (found["key"] == b"a key") is not sealed
    if sealed:
        with pytest.raises(Sealed, match=r"shop\.public\.t:1:7\. Nothing was put back"):
            check_opened([found])
    else:
        check_opened([found])
    shown = _described(found, Decoder(Registry()))  # type: ignore[arg-type]
    assert ("hex" in shown["key"]) is not sealed
    assert shown["protected"].startswith("sealed; no" if sealed else "sealed; opened")


def test_a_letter_at_another_position_stays_sealed() -> None:
    assert unsealed({**letter(MINE), "offset": 8}, MINE)["sealed"] is True


def test_a_letter_that_was_never_sealed() -> None:
    found = unsealed({**PLAIN, "key": b"a key", "value": None, "headers": None}, None)
    assert (found["sealed"], found["key"]) == (None, b"a key")
    assert "protected" not in _described(found, None)
