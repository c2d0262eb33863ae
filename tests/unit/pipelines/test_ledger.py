"""What the ledger skips, and that it survives a round trip through snapshot summaries."""

from dataclasses import dataclass

import pytest

from pipelines import ledger
from pipelines.ledger import Ledger


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
        ledger.summary("mirror", 1, {0: (3, 8), 1: (0, 2)}, second),
        ledger.summary("mirror", 0, {0: (0, 3)}, first),
    ]
    assert ledger.read(newest_first) == second == Ledger({0: 8, 1: 2}, 77)


def test_a_table_nobody_has_written_to_has_an_empty_ledger() -> None:
    assert ledger.read([]) == Ledger()


def test_a_truncate_is_remembered_by_later_commits() -> None:
    truncated = Ledger().after({0: (0, 3)}, truncated_lsn=50)
    assert truncated.after({0: (3, 4)}).truncated_lsn == 50
    assert truncated.after({0: (3, 4)}, truncated_lsn=40).truncated_lsn == 50
