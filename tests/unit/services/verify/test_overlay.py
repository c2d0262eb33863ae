"""Overlay: labelled cases of what the tail of a topic does to a snapshot."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from services.verify.overlay import Change, fold

NONE: frozenset[str] = frozenset()


def change(offset: int, op: str, key: int = 1, row: dict[str, Any] | None = None, **more: Any) -> Change:
    partition = more.pop("partition", 0)
    log_position = more.pop("log_position", offset * 10)
    return Change(
        partition, offset, op, log_position, (key,), row if row is not None else {"id": key, "v": f"v{offset}"}, **more
    )


@dataclass(frozen=True)
class Case:
    label: str
    changes: list[Change]
    expected: dict[int, dict[str, Any] | None]
    kept: dict[int, frozenset[str]] = field(default_factory=dict)
    base: dict[int, int] = field(default_factory=dict)
    truncated_at: int | None = None


LACKS = {"id": 1, "v": "new", "big": None}
BIG = frozenset({"big"})

CASES = [
    Case("insert", [change(1, "c")], {1: {"id": 1, "v": "v1"}}),
    Case("the newest of several wins", [change(1, "c"), change(2, "u")], {1: {"id": 1, "v": "v2"}}),
    Case("delete", [change(1, "u"), change(2, "d")], {1: None}),
    Case("delete, then insert again", [change(1, "d"), change(2, "c")], {1: {"id": 1, "v": "v2"}}),
    Case("delete of an unknown key", [change(1, "d")], {1: None}),
    Case("key change", [change(1, "d", 1), change(2, "c", 2)], {1: None, 2: {"id": 2, "v": "v2"}}),
    Case(
        "unchanged TOAST value: the snapshot's",
        [change(1, "u", row=LACKS, unavailable=BIG)],
        {1: LACKS},
        {1: BIG},
        {1: 1},
    ),
    Case(
        "unchanged TOAST value: an earlier event's",
        [change(1, "c", row={"id": 1, "v": "x", "big": "B"}), change(2, "u", row=LACKS, unavailable=BIG)],
        {1: {"id": 1, "v": "new", "big": "B"}},
        {1: NONE},
    ),
    Case(
        "unchanged TOAST value twice: still the snapshot's",
        [change(1, "u", row=LACKS, unavailable=BIG), change(2, "u", row=LACKS, unavailable=BIG)],
        {1: LACKS},
        {1: BIG},
        {1: 1},
    ),
    Case(
        "key change that lacks a TOAST value: the snapshot's, under the old key",
        [
            change(1, "d", 1, log_position=10),
            change(2, "c", 2, LACKS, log_position=10, partition=1, unavailable=BIG, old_key=(1,)),
        ],
        {1: None, 2: LACKS},
        {2: BIG},
        {2: 1},
    ),
    Case(
        "the same, the create's partition first, after an update of the old key",
        [
            change(7, "c", 2, LACKS, log_position=20, partition=0, unavailable=BIG, old_key=(1,)),
            change(1, "u", 1, {"id": 1, "v": "x", "big": "B"}, log_position=10, partition=1),
            change(2, "d", 1, log_position=20, partition=1),
        ],
        {1: None, 2: {"id": 1, "v": "new", "big": "B"}},
        {2: NONE},
    ),
    Case(
        "two key changes in a row keep the first one's origin",
        [
            change(1, "d", 1, log_position=10),
            change(2, "c", 2, LACKS, log_position=10, unavailable=BIG, old_key=(1,)),
            change(3, "d", 2, log_position=20),
            change(4, "c", 3, LACKS, log_position=20, unavailable=BIG, old_key=(2,)),
        ],
        {1: None, 2: None, 3: LACKS},
        {3: BIG},
        {3: 1},
    ),
    Case("truncate clears what is older", [change(1, "c"), Change(0, 2, "t", 20)], {1: None}),
    Case("and leaves what is newer", [Change(0, 1, "t", 10), change(2, "c")], {1: {"id": 1, "v": "v2"}}),
    Case(
        "truncate on another partition clears by log position, not by arrival",
        [Change(1, 9, "t", 15), change(1, "c", 1, log_position=10), change(2, "c", 2, log_position=20)],
        {1: None, 2: {"id": 2, "v": "v2"}},
    ),
    Case(
        "a truncate that the snapshot holds keeps older rows away",
        [change(1, "c", log_position=10)],
        {1: None},
        truncated_at=15,
    ),
    Case(
        "one key, a smaller log position at a later offset: the offset decides",
        [change(1, "u", log_position=50), change(2, "r", log_position=40)],
        {1: {"id": 1, "v": "v2"}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_fold(case: Case) -> None:
    keyed = fold(case.changes, truncated_at=case.truncated_at).keyed
    assert {key[0]: last.row for key, last in keyed.items()} == case.expected
    for key, kept in case.kept.items():
        assert keyed[(key,)].kept == kept
    for key, base in case.base.items():
        assert keyed[(key,)].base == (base,)


def test_rows_without_a_key_are_added_and_removed_unless_a_truncate_came_after() -> None:
    old = {"id": 1, "v": "old"}
    events = [change(1, "c"), change(2, "u", before=old), Change(0, 3, "t", 25), change(4, "u", before=old)]
    overlay = fold([*events, change(5, "c"), change(6, "d")], keyless=True)
    assert [row["v"] for row in overlay.standing(overlay.added)] == ["v4", "v5"]
    assert [row["v"] for row in overlay.standing(overlay.removed)] == ["old", "v6"]
    assert overlay.keyed == {}
