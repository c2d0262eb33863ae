"""Ages over the contiguous prefix."""

import pytest

from tests.bench.freshness import Ages, Change, ages, caught_up, percentile


def change(lsn: int, key: str = "", op: str = "u", table: str = "t") -> Change:
    return Change(table, lsn, (key or str(lsn)).encode(), op, float(lsn))


CASES = {
    "each is seen on its own": ([change(1), change(2)], {"t": {1: 3.0, 2: 5.0}}, [2.0, 3.0], 0),
    "what comes early waits for those before it": ([change(1), change(2)], {"t": {1: 9.0, 2: 4.0}}, [8.0, 7.0], 0),
    "an order of topics isn't one of commits": ([change(2), change(1)], {"t": {1: 9.0, 2: 4.0}}, [8.0, 7.0], 0),
    "replaced before anybody looked": ([change(1, "k"), change(2, "k")], {"t": {2: 6.0}}, [5.0, 4.0], 0),
    "replaced after it was seen": ([change(1, "k"), change(4, "k")], {"t": {1: 2.0, 4: 6.0}}, [1.0, 2.0], 0),
    "never seen": ([change(1), change(2)], {"t": {2: 4.0}}, [2.0], 1),
    "a delete leaves nothing to see": ([change(1), change(2, op="d")], {"t": {1: 4.0}}, [3.0], 0),
    "deleted before anybody looked": ([change(1, "k"), change(2, "k", "d")], {"t": {}}, [], 0),
    "seen, then deleted": ([change(1, "k"), change(2, "k", "d")], {"t": {1: 3.0}}, [2.0], 0),
    "deleted and back": ([change(1, "k"), change(2, "k", "d"), change(3, "k", "c")], {"t": {3: 5.0}}, [2.0], 0),
    "tables are one prefix": ([change(1), change(2, table="s")], {"t": {1: 7.0}, "s": {2: 3.0}}, [6.0, 5.0], 0),
    "the same key of another table": (
        [change(1, "k"), change(2, "k", table="s")], {"t": {}, "s": {2: 3.0}}, [1.0], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "seen", "expected", "unseen"), CASES.values(), ids=CASES.keys())
def test_ages(changes: list[Change], seen: dict[str, dict[int, float]], expected: list[float], unseen: int) -> None:
    found = ages(changes, seen)
    assert (found.seconds, found.unseen) == (expected, unseen)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.95, 95), (1.0, 100), (0.0, 1), (0.951, 96)])
def test_percentile(share: float, expected: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == expected


def test_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_caught_up_is_when_no_later_look_shows_an_old_prefix() -> None:
    # What was on its way when the process was killed at 12, a first batch, and those that follow.
    found = Ages((11.0, 13.0, 20.0, 28.0, 40.0), (12.5, 25.0, 25.0, 30.0, 41.0), 0)
    assert caught_up(found, since=12, within=5) == 25.0
    assert caught_up(found, since=12, within=2) == 30.0
    assert caught_up(found, since=12, within=1.5) == 41.0
    assert caught_up(found, since=12, within=0.5) is None
    assert caught_up(found, since=50, within=5) is None
