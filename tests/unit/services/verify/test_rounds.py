"""Rounds: a table's chunks walked against a source and a lake made of keys, with what changes in between."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from services.verify.rounds import ChunkResult, TableState, VerifiedPosition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PAUSE = timedelta(minutes=10)
KEY = ("id bigint",)


class Table:
    """Source and lake as sets of numbers, looked at in chunks of ``rows``; each look is a position of its own."""

    def __init__(self, source: Iterable[int], lake: Iterable[int], rows: int = 3, named: int = 100) -> None:
        self.source, self.lake, self.rows, self.named = set(source), set(lake), rows, named
        self.state, self.now, self.looks = TableState(table="public.t", key=KEY), NOW, 0

    def look(self, after: int | None, upto: int | None, problems: tuple[str, ...] = ()) -> ChunkResult:
        inside = {k for k in self.source ^ self.lake if (after is None or k > after) and (upto is None or k <= upto)}
        kinds = {f"id={k}": "missing" if k in self.source else "extra" for k in sorted(inside)[: self.named]}
        self.looks += 1
        mark = VerifiedPosition(log_position=f"0/{self.looks}", at=self.now, snapshot_id=self.looks)
        return ChunkResult(
            after=None if after is None else (str(after),), upto=None if upto is None else (str(upto),), mark=mark,
            keys=kinds, more=len(inside) - len(kinds), problems=problems, ends={0: self.looks},
        )  # fmt: skip

    def walk(self, problems: tuple[str, ...] = ()) -> None:
        """The next chunk."""
        assert self.state.walk_due(self.now, PAUSE)
        after = int(self.state.cursor[0]) if self.state.cursor else None
        left = sorted(k for k in self.source if after is None or k > after)
        upto = left[self.rows - 1] if len(left) >= self.rows else None
        self.state = self.state.walk(self.look(after, upto, problems), self.now)

    def walk_to_the_end(self) -> None:
        while self.state.walk_due(self.now, PAUSE):
            self.walk()

    def look_again(self, problems: tuple[str, ...] = ()) -> int:
        """At all that is due, in an hour, by when the lake holds everything."""
        self.now += timedelta(hours=1)
        due = self.state.again_due(self.now, MINUTE, PAUSE, {0: self.looks})
        for finding in due:
            bounds = [None if key is None else int(key[0]) for key in (finding.after, finding.upto)]
            self.state = self.state.again(finding, self.look(bounds[0], bounds[1], problems), self.now)
        return len(due)


def test_a_round_without_a_difference_verifies_through_its_beginning() -> None:
    table = Table(range(10), range(10))
    table.walk()
    assert table.state.verified is None
    table.walk_to_the_end()
    assert table.state.verified is not None
    assert (table.state.verified.log_position, table.looks) == ("0/1", 4)
    assert not table.state.walk_due(table.now + PAUSE - MINUTE, PAUSE)
    assert table.state.walk_due(table.now + PAUSE, PAUSE)


@pytest.mark.parametrize(
    ("lake", "kind"), [({*range(9)}, "missing"), ({*range(10), 99}, "extra"), ({-5, *range(10)}, "extra")]
)
def test_what_differs_is_pending_and_then_confirmed(lake: set[int], kind: str) -> None:
    table = Table(range(10), lake)
    table.walk_to_the_end()
    assert table.state.differences == 0, "one look is no proof"
    assert table.state.verified is None
    assert table.look_again() == 1
    assert table.state.differences == 1
    assert [*table.state.confirmed[0].keys.values()] == [kind]
    assert table.state.verified is None


def test_what_was_there_at_the_second_look_was_no_difference() -> None:
    table = Table(range(10), range(9))
    table.walk_to_the_end()
    table.lake.add(9)
    table.look_again()
    assert (table.state.differences, table.state.findings) == (0, ())
    assert table.state.verified is not None, "the round ends with its last pending look"


def test_only_keys_that_differ_in_both_looks_are_confirmed() -> None:
    table = Table(range(3), range(2), rows=10)
    table.walk_to_the_end()
    table.lake = {0, 2}
    table.look_again()
    assert table.state.differences == 0, "another key of the same chunk has had one look only"
    table.look_again()
    assert [f.keys for f in table.state.confirmed] == [{"id=1": "missing"}]


def test_it_is_not_looked_at_again_before_the_lake_holds_what_the_first_look_did() -> None:
    table = Table(range(3), range(2))
    table.walk()
    later = table.now + timedelta(hours=1)
    assert table.state.again_due(later, MINUTE, PAUSE, {0: 0}) == ()
    assert table.state.again_due(table.now, MINUTE, PAUSE, {0: 1}) == ()
    assert len(table.state.again_due(later, MINUTE, PAUSE, {0: 1})) == 1


def test_a_known_difference_is_told_once_and_goes_when_it_is_healed() -> None:
    table = Table(range(10), range(9))
    table.walk_to_the_end()
    table.look_again()
    table.walk_to_the_end()
    assert len(table.state.findings) == 1, "the next round meets it again"
    table.lake.add(9)
    table.look_again()
    assert table.state.findings == ()
    assert table.state.verified is None
    table.walk_to_the_end()
    assert table.state.verified is not None


def test_a_table_with_more_differences_than_are_named_waits_for_its_healing() -> None:
    table = Table(range(10), [], rows=5, named=2)
    table.walk_to_the_end()
    table.look_again()
    assert table.state.differences == 10
    table.now += PAUSE
    assert not table.state.walk_due(table.now, PAUSE)
    table.lake = set(range(10))
    table.look_again()
    assert table.state.differences == 0
    assert table.state.walk_due(table.now, PAUSE)


def test_a_problem_of_the_table_is_confirmed_like_a_row() -> None:
    table = Table(range(2), range(2))
    table.walk(("column v is missing in the lake",))
    table.look_again(("column v is missing in the lake",))
    assert table.state.differences == 1
    table.look_again()
    assert table.state.differences == 0


def test_a_restart_goes_on_where_it_was_unless_the_key_is_another() -> None:
    table = Table(range(10), range(10))
    table.walk()
    again = TableState.model_validate_json(table.state.model_dump_json())
    assert again == table.state
    assert again.of_key(KEY).cursor == ("2",)
    anew = again.of_key(("code text",))
    assert (anew.cursor, anew.begun) == (None, None)
    assert anew.walk_due(NOW, PAUSE)
