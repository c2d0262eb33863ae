"""What the ledger skips, and that it survives a round trip through snapshot summaries."""

from dataclasses import dataclass

import pytest

from pipelines.kafka.ranges import Ranges
from pipelines.ledger.entries import Commit, Counts, Ledger, commit_entries, entry_summary, ledger_problems, read_ledger


@dataclass(frozen=True)
class Case:
    label: str
    positions: dict[int, int]
    ranges: dict[int, tuple[int, int]]
    pending: dict[int, tuple[int, int]]


CASES = [
    Case("nothing known: everything is pending", {}, {0: (5, 9)}, {0: (5, 9)}),
    Case("all known", {0: 9}, {0: (5, 9)}, {}),
    Case("known beyond the range", {0: 20}, {0: (5, 9)}, {}),
    Case("known up to the middle", {0: 7}, {0: (5, 9)}, {0: (7, 9)}),
    Case("a partition that is new", {0: 9}, {0: (5, 9), 3: (0, 2)}, {3: (0, 2)}),
    Case("each partition by itself", {0: 6, 1: 4}, {0: (5, 9), 1: (0, 4)}, {0: (6, 9)}),
    Case("a gap that control records left", {0: 3}, {0: (5, 9)}, {0: (5, 9)}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_pending(case: Case) -> None:
    assert Ledger(case.positions).pending(case.ranges) == case.pending


def test_a_position_never_goes_back() -> None:
    assert Ledger({0: 9}).after({0: (2, 5)}).positions == {0: 9}


def test_the_newest_commit_that_has_a_ledger_counts() -> None:
    first = Ledger().after({0: (0, 3)})
    second = first.after({0: (3, 8), 1: (0, 2)}, truncated_lsn=77)
    newest_first = [
        {"operation": "replace"},
        entry_summary("mirror", 1, {0: (3, 8), 1: (0, 2)}, second, Counts(merged=7)),
        entry_summary("mirror", 0, {0: (0, 3)}, first, Counts(merged=3)),
    ]
    assert read_ledger(newest_first) == second == Ledger({0: 8, 1: 2}, 77)


def test_a_table_nobody_has_written_to_has_an_empty_ledger() -> None:
    assert read_ledger([]) == Ledger()


def test_a_truncate_is_remembered_by_later_commits() -> None:
    truncated = Ledger().after({0: (0, 3)}, truncated_lsn=50)
    assert truncated.after({0: (3, 4)}).truncated_lsn == 50
    assert truncated.after({0: (3, 4)}, truncated_lsn=40).truncated_lsn == 50


def test_what_lies_between_a_table_and_a_batch() -> None:
    state = Ledger({0: 4, 1: 9})
    assert state.skipped({0: (6, 8), 1: (9, 9), 2: (0, 5), 3: (2, 2)}) == {0: (4, 6), 3: (0, 2)}


def test_entries_come_back_as_they_were_written() -> None:
    entry = entry_summary("mirror", 4, {0: (3, 8)}, Ledger({0: 8}), Counts(merged=2, superseded=1, tombstones=1))
    assert commit_entries([{"operation": "replace"}, entry]) == [
        Commit(4, {0: (3, 8)}, Counts(merged=2, superseded=1, tombstones=1))
    ]


HISTORIES = [
    ("whole", [{0: (0, 3)}, {0: (3, 8), 1: (0, 2)}], True, []),
    ("a gap", [{0: (0, 3)}, {0: (5, 8)}], True, ["batch 1, partition 0: offsets 3 to 4 are in no commit"]),
    ("twice", [{0: (0, 3)}, {0: (2, 8)}], True, ["batch 1, partition 0: offsets 2 to 2 are in two commits"]),
    ("its beginning is missing", [{0: (2, 3)}], True, ["batch 0, partition 0: offsets 0 to 1 are in no commit"]),
    ("its beginning was expired", [{0: (2, 3)}, {0: (3, 4), 1: (7, 8)}], False, []),
]


@pytest.mark.parametrize(
    ("label", "history", "complete", "problems"), HISTORIES, ids=[history[0] for history in HISTORIES]
)
def test_problems_of_a_history(label: str, history: list[Ranges], complete: bool, problems: list[str]) -> None:
    entries = [Commit(number, dict(offsets), None) for number, offsets in enumerate(history)]
    assert ledger_problems(entries, complete) == problems


def test_more_records_than_offsets() -> None:
    assert ledger_problems([Commit(0, {0: (0, 2)}, Counts(merged=3))], complete=True) == [
        "batch 0: accounts for 3 records in 2 offsets"
    ]
