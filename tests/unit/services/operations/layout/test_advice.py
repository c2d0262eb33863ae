"""What layout is advised for what was observed."""

from dataclasses import replace

import pytest

from services.operations.layout.advice import MIB, advise
from services.operations.layout.observation import Filter, Observation

LARGE = Observation(rows=50_000_000, bytes=8_192 * MIB, files=16, key=("id",))
YEAR = 8766.0


def _terms(observed: Observation) -> list[tuple[str, str]]:
    return [(advice.part, advice.term) for advice in advise(observed)]


@pytest.mark.parametrize(
    ("asked", "term"),
    [
        (Filter("at", 5, 1.0, hours=48), ("partition", "hour(at)")),
        (Filter("at", 5, 1.0, hours=YEAR / 10), ("partition", "day(at)")),
        (Filter("at", 5, 1.0, hours=4 * YEAR), ("partition", "month(at)")),
        (Filter("at", 5, 1.0, hours=20 * YEAR), ("partition", "year(at)")),
        (Filter("at", 5, 1.0, hours=0.5), ("sort", "at")),
        (Filter("country", 40, 1.0), ("partition", "country")),
        (Filter("country", 400, 1.0), ("sort", "country")),
    ],
    ids=str,
)
def test_a_filters_column_parts_rows_where_the_parts_are_large_enough(asked: Filter, term: tuple[str, str]) -> None:
    assert _terms(replace(LARGE, filters=(asked,))) == [term]


def test_what_a_filter_reads_little_for_already_stays() -> None:
    assert _terms(replace(LARGE, filters=(Filter("country", 400, 0.07),))) == []


def test_a_small_table_has_nothing_to_gain() -> None:
    small = replace(LARGE, bytes=30 * MIB, files=1, touched=1.0, spread=1.0)
    assert _terms(replace(small, filters=(Filter("at", 5, 1.0, hours=YEAR), Filter("country", 40, 1.0)))) == []


def test_a_table_whose_changes_are_close_together_is_sorted_by_its_key() -> None:
    hot = replace(LARGE, batches=9, changes=10_000, touched=0.9, spread=1 / 16)
    (advice,) = advise(hot)
    assert (advice.part, advice.term, advice.now, advice.then) == ("sort", "id", 0.9, 1 / 16)
    assert _terms(replace(hot, spread=0.9)) == [], "changes are everywhere, however it is sorted"


def test_what_gains_most_comes_first() -> None:
    both = replace(LARGE, touched=0.5, spread=0.25, filters=(Filter("country", 40, 1.0),))
    assert _terms(both) == [("partition", "country"), ("sort", "id")]
