"""Whose copies are looked for: how a row is named, and which events are about it."""

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType

from pipelines.kafka.avro import Decoder
from pipelines.ledger.entries import Ledger
from pipelines.protection.crypto import ProtectionKeys
from services.operations.dead_letters.letters import Letter
from services.operations.erase.errors import CannotErase
from services.operations.erase.letters import Sorting
from services.operations.erase.subject import Subject
from services.stack.lake import PinnedTable
from tests.unit.pipelines.change_events import event, key_schema, value_schema, wire

COLUMNS = {"id": "long", "name": ["null", "string"]}
KEY, VALUE = key_schema("people", {"id": "long"}), value_schema("people", COLUMNS)
TOPIC = "shop.public.people"


class Registry:
    """Schemas by number."""

    def schema(self, number: int) -> str:
        return {1: KEY, 2: VALUE}[number]


class Table:
    """What of PyIceberg's table is looked at."""

    properties = {"lakehouse.protected": json.dumps({"phone": {}})}

    def schema(self) -> Schema:
        kinds = {"id": LongType(), "name": StringType(), "phone": StringType(), "born": DateType(),
                 "paid": DecimalType(9, 2)}  # fmt: skip
        return Schema(*(NestedField(number, name, kind) for number, (name, kind) in enumerate(kinds.items(), 1)))


def pinned(*key: str) -> PinnedTable:
    table: Any = Table()
    return PinnedTable("shop", "people", "public", "people", TOPIC, key, 1, Ledger(), table)


def decoder() -> Decoder:
    registry: Any = Registry()
    return Decoder(registry)


def letter(offset: int, key: bytes | None, value: bytes | None, headers: Any = ()) -> Letter:
    said = [{"key": name, "value": text} for name, text in headers]
    return {"topic": TOPIC, "partition": 0, "offset": offset, "key": key, "value": value, "headers": said}


@pytest.mark.parametrize(
    ("text", "key", "values"),
    [
        ("7", ("id",), {"id": "7"}),
        ("id=7", ("id",), {"id": "7"}),
        ("id=7,name=Ada Lovelace", ("id", "name"), {"id": "7", "name": "Ada Lovelace"}),
        ("name=a=b", (), {"name": "a=b"}),
        ("paid=1.5", ("id",), {"paid": "1.5"}),
    ],
)
def test_how_a_row_is_named(text: str, key: tuple[str, ...], values: dict[str, str]) -> None:
    assert Subject.of(pinned(*key), text).values == values


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("7", ("id", "name"), "id=…,name=…"),
        ("7", (), "COLUMN=VALUE"),
        ("=7", ("id",), "doesn't name a row"),
        ("it=7", ("id",), "has no column it: it has id, name"),
        ("seven", ("id",), "'seven' is none"),
        ("paid=much", ("id",), "'much' is none"),
        ("born=1815-12-10", ("id",), "whole numbers"),
        ("phone=1", ("id",), "phone is protected in the lake"),
    ],
)
def test_what_names_no_row(text: str, key: tuple[str, ...], said: str) -> None:
    with pytest.raises(CannotErase, match=said):
        Subject.of(pinned(*key), text)


@pytest.mark.parametrize(
    ("key", "value", "headers", "about"),
    [
        (7, event("u", 1, {"id": 7, "name": "new"}, {"id": 7, "name": "old"}), (), True),
        (8, event("c", 1, {"id": 8, "name": "x"}), (), False),
        (7, None, (), True),
        (8, None, (), False),
        (8, event("c", 1, {"id": 8, "name": "x"}), [("__debezium.oldkey", b'{"id": 7}')], True),
        (7, b"no event", (), True),
        (8, b"no event", (), False),
        (None, b"no event", (), None),
        (b"no key", None, (), None),
    ],
)
def test_which_events_are_about_it(key: Any, value: Any, headers: Any, about: bool | None) -> None:
    key_bytes = wire(1, KEY, {"id": key}) if isinstance(key, int) else key
    value_bytes = wire(2, VALUE, value) if isinstance(value, dict) else value
    assert Subject.of(pinned("id"), "7").in_event(decoder(), key_bytes, value_bytes, headers) is about


def test_an_event_is_found_by_a_column_that_is_no_key() -> None:
    subject = Subject.of(pinned("id"), "name=Ada")
    assert subject.in_event(decoder(), None, wire(2, VALUE, event("d", 1, None, {"id": 1, "name": "Ada"})), ()) is True
    assert subject.in_event(decoder(), None, wire(2, VALUE, event("c", 1, {"id": 1, "name": None})), ()) is False
    # Its key alone doesn't tell.
    assert subject.in_event(decoder(), wire(1, KEY, {"id": 1}), None, ()) is None


@pytest.mark.parametrize(("doubtful", "about", "unreadable"), [(False, {1}, {3}), (True, {1, 3}, set())])
def test_letters_are_sorted(doubtful: bool, about: set[int], unreadable: set[int]) -> None:
    keys: ProtectionKeys | None = None
    sorting = Sorting(Subject.of(pinned("id"), "7"), decoder(), keys, doubtful)
    other = {**letter(9, wire(1, KEY, {"id": 7}), None), "topic": "shop.public.others"}
    found = sorting.sort([letter(1, wire(1, KEY, {"id": 7}), None), letter(2, wire(1, KEY, {"id": 2}), None),
                          letter(3, None, b"no event"), other])  # fmt: skip
    assert {offset for _, _, offset in found.about} == about
    assert {offset for _, _, offset in found.unreadable} == unreadable
