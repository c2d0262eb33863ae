"""Debezium's values, and PostgreSQL's snapshots."""

from decimal import Decimal
from typing import Any

import pytest

from pipelines.sources.postgres.snapshot import Snapshot
from services.verify.offsets import behind
from services.verify.values import is_unavailable, neutral, time_of_day

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
    assert neutral(value, avro) == expected


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


@pytest.mark.parametrize(
    ("label", "text", "xid", "seen"),
    [
        ("before all", "100:110:103,105", 99, True),
        ("ended between", "100:110:103,105", 104, True),
        ("running", "100:110:103,105", 105, False),
        ("not begun", "100:110:103,105", 110, False),
        ("nothing runs", "100:100:", 99, True),
        ("second epoch, 32 bits", "4294967400:4294967410:4294967405", 104, True),
        ("second epoch, ended between", "4294967400:4294967410:4294967405", 108, True),
        ("second epoch, running", "4294967400:4294967410:4294967405", 4294967405 - (1 << 32), False),
        ("from the epoch before", "4294967300:4294967310:", 4294967290, True),
        ("into the epoch after", "4294967290:4294967294:", 3, False),
    ],
)
def test_snapshot_sees(label: str, text: str, xid: int, seen: bool) -> None:
    assert Snapshot.parse(text).sees(xid) is seen


def test_behind_needs_no_position_of_an_empty_partition() -> None:
    ends = {("t", 0): 10, ("t", 1): 5, ("t", 2): 7, ("t", 3): 0}
    starts = {("t", 0): 0, ("t", 1): 5, ("t", 2): 4, ("t", 3): 0}
    assert behind(ends, starts, {("t", 0): 8}) == {("t", 0): 2, ("t", 2): 3}
    assert behind(ends, starts, {("t", 0): 10, ("t", 2): 9}) == {}
