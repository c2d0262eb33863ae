"""Between which values a merge looks: all changed keys are there, and it is the same for many batches."""

from random import Random

import pytest

from pipelines.merge.pruning import INTEGERS, widen_bounds

INT, LONG = INTEGERS
PAIRS = [(7, 7), (0, 1), (-5, 1000), (10**6, 3 * 10**6), (INT[0], INT[1]), (INT[1] - 9, INT[1]), (INT[0], INT[0] + 9),
         (INT[1] - 5, INT[1] + 5), (LONG[0], LONG[1]), (LONG[1], LONG[1]), (LONG[0], 0)]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_all_keys_are_between_what_is_moved_apart_and_it_is_of_their_type(low: int, high: int) -> None:
    least, most = widen_bounds(low, high)
    assert least <= low <= high <= most
    assert (most - least) <= 1.5 * (high - low)
    narrow = INT[0] <= low and high <= INT[1]
    limits = INT if narrow else LONG
    assert limits[0] <= least
    assert most <= limits[1]


def test_of_texts_nothing_is_changed() -> None:
    assert widen_bounds("a", "b") == ("a", "b")


def test_batches_of_the_same_table_are_between_the_same() -> None:
    chance = Random(1)
    batches = [[chance.randrange(1_000_000) for _ in range(1000)] for _ in range(50)]
    assert len({(min(batch), max(batch)) for batch in batches}) == 50
    assert len({widen_bounds(min(batch), max(batch)) for batch in batches}) == 1


def test_a_tail_that_moves_on_is_between_the_same_for_a_while() -> None:
    tails = [(100_000 + 1000 * batch, 150_000 + 1000 * batch) for batch in range(50)]
    assert len({widen_bounds(*tail) for tail in tails}) <= 15
