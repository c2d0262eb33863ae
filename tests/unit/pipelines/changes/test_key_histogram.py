"""The widest gap among changed keys: no changed key is in it, and it is the same for many batches."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes.key_histogram import BUCKETS, KeyHistogram, RecentKeys
from pipelines.limits import Limits
from pipelines.merge.pruning import INTEGERS, Pruning
from tests.unit.pipelines.harness import Topic, create, delete, update

INT, LONG = INTEGERS
KEYS = st.one_of(
    st.integers(*LONG), st.integers(0, 1000), st.sampled_from([*LONG, LONG[0] + 1, LONG[1] - 1, -1, 0, *INT])
)


def marks(histogram: KeyHistogram, keys: list[int]) -> int:
    """As Spark has them, the sign being the last bit."""
    stretches = {max(0, min(BUCKETS - 1, (key >> histogram.shift) - histogram.first)) for key in keys}
    bits = sum(1 << stretch for stretch in stretches)
    return bits - (1 << BUCKETS) if bits >> (BUCKETS - 1) else bits


@given(st.lists(KEYS, min_size=1), st.tuples(KEYS, KEYS))
def test_no_key_is_in_the_gap_wherever_the_histogram_lies(keys: list[int], laid: tuple[int, int]) -> None:
    histogram = KeyHistogram.over("id", min(laid), max(laid))
    gap = histogram.widest_gap(marks(histogram, keys))
    assert gap is None or not [key for key in keys if gap[0] < key < gap[1]]
    if gap:
        assert min(keys) <= gap[0] < gap[1] <= max(keys), "so both are values of the column's type"


@given(KEYS, KEYS)
def test_all_keys_that_it_was_laid_over_are_on_it(one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    histogram = KeyHistogram.over("id", low, high)
    assert (low >> histogram.shift) - histogram.first >= 0
    assert (high >> histogram.shift) - histogram.first < BUCKETS


def test_spark_marks_the_same(spark: SparkSession) -> None:
    chance = Random(1)
    for kind, (low, high) in {"int": INT, "bigint": LONG}.items():
        for laid in ((low, high), (0, 1), (-5, 100_000), (high - 9, high), (low, low)):
            histogram = KeyHistogram.over("id", *laid)
            keys = [low, high, 0, -1, *laid, *(chance.randint(low, high) for _ in range(5))]
            rows = spark.createDataFrame([(key,) for key in keys], f"id {kind}").select(F.struct("id").alias("row"))
            for key, mark in rows.select("row.id", histogram.bit(F.col("row"))).collect():
                assert mark == marks(histogram, [key]), (kind, laid, key)


def test_where_new_rows_come_and_the_oldest_go_most_is_left_out() -> None:
    recent = RecentKeys()
    recent.note(["id"], {"id": (5_000, 1_000_000)})
    histogram = recent.histogram(["id"])
    assert histogram is not None
    gap = histogram.widest_gap(marks(histogram, [*range(5_000, 6_000), *range(990_000, 1_000_500)]))
    assert gap is not None
    assert gap[1] - gap[0] > 900_000


@pytest.mark.parametrize("keys", [[7], [3, 4, 5], list(range(0, 1_000_000, 1_000))], ids=["one", "near", "everywhere"])
def test_where_no_gap_is_worth_it_there_is_none(keys: list[int]) -> None:
    histogram = KeyHistogram.over("id", 0, 1_000_000)
    assert histogram.widest_gap(marks(histogram, keys)) is None


def test_it_stays_the_same_while_a_table_goes_on() -> None:
    recent, found, gaps = RecentKeys(), set(), set()
    for batch in range(200):
        low, high = 1_000 * batch, 1_000_000 + 1_000 * batch
        recent.note(["id"], {"id": (low, high)})
        histogram = recent.histogram(["id"])
        assert histogram is not None
        found.add(histogram)
        gaps.add(histogram.widest_gap(marks(histogram, [*range(low, low + 500, 50), *range(high - 3_000, high, 50)])))
    assert len(found) <= 3
    assert None not in gaps
    assert len(gaps) <= 30


def test_some_batches_with_new_keys_alone_dont_move_it() -> None:
    recent = RecentKeys()
    for batch in range(20):
        recent.note(["id"], {"id": (0 if batch % 4 == 0 else 999_000, 1_000_000)})
    assert recent.histogram(["id"]) == KeyHistogram.over("id", 0, 1_000_000)


def test_of_another_key_nothing_is_known() -> None:
    recent = RecentKeys()
    recent.note(["a", "b"], {"b": (1, 9), "name": ("a", "b")})
    assert recent.histogram(["a", "b"]) == KeyHistogram.over("b", 1, 9)
    assert recent.histogram(["a"]) is None
    recent.note(["a"], {"a": (100, 100)})
    assert recent.histogram(["a"]) == KeyHistogram.over("a", 100, 100)
    recent.note([], {"name": ("a", "b")})
    assert recent.histogram([]) is None


@pytest.mark.parametrize(
    "limits", [Limits(listed_keys=3), Limits(listed_keys=3, few_records=0, cached_offsets=0)], ids=["few", "many"]
)
def test_what_is_changed_at_both_ends_is_merged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: Limits
) -> None:
    gaps: list[Any] = []
    conditions = Pruning.conditions
    monkeypatch.setattr(Pruning, "conditions", lambda where, row: gaps.append(where.gap) or conditions(where, row))
    topic = Topic(spark, budget=None)
    topic.limits = limits
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in range(1, 1_001)]), 0)
    for batch in range(1, 4):
        lsn, old, new = 10_000 * batch, 10 * batch, 1_000 + 10 * batch
        changed = [event for n in range(10) for event in (
            delete(lsn + n, old - n), create(lsn + n, new - n, "b"), update(lsn + 50 + n, new - 15 - n, "c"),
        )]  # fmt: skip
        topic.apply(mirror, topic.batch(changed), batch)
    # Nothing is known of the keys before the first batch that was there.
    assert [gap is not None for gap in gaps] == [True, True, True]
    names = dict.fromkeys(range(31, 1001), "a") | dict.fromkeys(range(1001, 1031), "b")
    for batch in range(1, 4):
        names |= {1_000 + 10 * batch - 15 - n: "c" for n in range(10)}
    assert topic.rows() == [(n, name, "d") for n, name in sorted(names.items())]
