"""Debezium's values, in the form that is compared."""

from decimal import Decimal
from typing import Any

import pytest

from pipelines.sources.debezium.values import is_unavailable, neutral, time_of_day

PLACEHOLDER = "__unavailable_0123456789abcdef"


def semantic(kind: str, name: str) -> Any:
    return ["null", {"type": kind, "connect.name": name}]


@pytest.mark.parametrize(
    ("label", "value", "avro", "expected"),
    [
        ("null", None, ["null", "long"], None),
        ("number", 5, "long", 5),
        ("text", "", "string", ""),
        ("decimal keeps its scale", Decimal("1.50"), {"type": "bytes", "logicalType": "decimal"}, "1.50"),
        ("large decimal isn't in exponent form", Decimal("1E+20"), "bytes", "1" + "0" * 20),
        ("milliseconds", 1_000, semantic("long", "io.debezium.time.Timestamp"), 1_000_000),
        ("microseconds", 1_001, semantic("long", "io.debezium.time.MicroTimestamp"), 1_001),
        ("time of day", 45_296_000_007, semantic("long", "io.debezium.time.MicroTime"), "12:34:56.000007"),
        ("list with null", [1, None], ["null", {"type": "array", "items": ["null", "int"]}], [1, None]),
    ],
)
def test_neutral(label: str, value: Any, avro: Any, expected: Any) -> None:
    assert neutral(value, avro, {}) == expected


def test_end_of_day() -> None:
    assert time_of_day(86_400_000_000) == "24:00:00.000000"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (PLACEHOLDER, True),
        (PLACEHOLDER.encode(), True),
        ([PLACEHOLDER], True),
        ([PLACEHOLDER.encode()], True),
        ([ord(character) for character in PLACEHOLDER], True),
        (PLACEHOLDER + " ", False),
        (["a", PLACEHOLDER], False),
        ([], False),
        ([None], False),
        (None, False),
        (0, False),
    ],
)
def test_unavailable(value: Any, expected: bool) -> None:
    assert is_unavailable(value, PLACEHOLDER) is expected
