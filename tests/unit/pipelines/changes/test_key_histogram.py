"""The widest gap among changed keys: no changed key is in it, and it is the same for many batches."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes import stats, topic_batch
from pipelines.changes.key_histogram import BUCKETS, KeyHistogram, RecentKeys
from pipelines.changes.topic_batch import CACHED_OFFSETS, FEW_RECORDS
from pipelines.merge.pruning import INTEGERS, Pruning
from tests.unit.pipelines.harness import Topic, create, delete, update

INT, LONG = INTEGERS
KEYS = st.one_of(
    st.integers(*LONG), st.integers(0, 1000), st.sampled_from([*LONG, LONG[0] + 1, LONG[1] - 1, -1, 0, *INT])
)


def marks(ruler: KeyHistogram, keys: list[int]) -> int:
    """As Spark has them, the sign being the last bit."""
    stretches = {max(0, min(BUCKETS - 1, (key >> ruler.shift) - ruler.first)) for key in keys}
    bits = sum(1 << stretch for stretch in stretches)
    return bits - (1 << BUCKETS) if bits >> (BUCKETS - 1) else bits


@given(st.lists(KEYS, min_size=1), st.tuples(KEYS, KEYS))
def test_no_key_is_in_the_gap_wherever_the_ruler_lies(keys: list[int], laid: tuple[int, int]) -> None:
    ruler = KeyHistogram.over("id", min(laid), max(laid))
    gap = ruler.gap(marks(ruler, keys))
    assert gap is None or not [key for key in keys if gap[0] < key < gap[1]]
    if gap:
        assert min(keys) <= gap[0] < gap[1] <= max(keys), "so both are values of the column's type"


@given(KEYS, KEYS)
def test_all_keys_that_it_was_laid_over_are_on_it(one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    ruler = KeyHistogram.over("id", low, high)
    assert (low >> ruler.shift) - ruler.first >= 0
    assert (high >> ruler.shift) - ruler.first < BUCKETS


def test_spark_marks_the_same(spark: SparkSession) -> None:
    chance = Random(1)
    for kind, (low, high) in {"int": INT, "bigint": LONG}.items():
        for laid in ((low, high), (0, 1), (-5, 100_000), (high - 9, high), (low, low)):
            ruler = KeyHistogram.over("id", *laid)
            keys = [low, high, 0, -1, *laid, *(chance.randint(low, high) for _ in range(5))]
            rows = spark.createDataFrame([(key,) for key in keys], f"id {kind}").select(F.struct("id").alias("row"))
            for key, mark in rows.select("row.id", ruler.mark(F.col("row"))).collect():
                assert mark == marks(ruler, [key]), (kind, laid, key)


def test_where_new_rows_come_and_the_oldest_go_most_is_left_out() -> None:
    rulers = RecentKeys()
    rulers.note(["id"], {"id": (5_000, 1_000_000)})
    ruler = rulers.ruler(["id"])
    assert ruler is not None
    gap = ruler.gap(marks(ruler, [*range(5_000, 6_000), *range(990_000, 1_000_500)]))
    assert gap is not None
    assert gap[1] - gap[0] > 900_000


@pytest.mark.parametrize("keys", [[7], [3, 4, 5], list(range(0, 1_000_000, 1_000))], ids=["one", "near", "everywhere"])
def test_where_no_gap_is_worth_it_there_is_none(keys: list[int]) -> None:
    ruler = KeyHistogram.over("id", 0, 1_000_000)
    assert ruler.gap(marks(ruler, keys)) is None


def test_it_stays_the_same_while_a_table_goes_on() -> None:
    rulers, found, gaps = RecentKeys(), set(), set()
    for batch in range(200):
        low, high = 1_000 * batch, 1_000_000 + 1_000 * batch
        rulers.note(["id"], {"id": (low, high)})
        ruler = rulers.ruler(["id"])
        assert ruler is not None
        found.add(ruler)
        gaps.add(ruler.gap(marks(ruler, [*range(low, low + 500, 50), *range(high - 3_000, high, 50)])))
    assert len(found) <= 3
    assert None not in gaps
    assert len(gaps) <= 30


def test_some_batches_with_new_keys_alone_dont_move_it() -> None:
    rulers = RecentKeys()
    for batch in range(20):
        rulers.note(["id"], {"id": (0 if batch % 4 == 0 else 999_000, 1_000_000)})
    assert rulers.ruler(["id"]) == KeyHistogram.over("id", 0, 1_000_000)


def test_of_another_key_nothing_is_known() -> None:
    rulers = RecentKeys()
    rulers.note(["a", "b"], {"b": (1, 9), "name": ("a", "b")})
    assert rulers.ruler(["a", "b"]) == KeyHistogram.over("b", 1, 9)
    assert rulers.ruler(["a"]) is None
    rulers.note(["a"], {"a": (100, 100)})
    assert rulers.ruler(["a"]) == KeyHistogram.over("a", 100, 100)
    rulers.note([], {"name": ("a", "b")})
    assert rulers.ruler([]) is None


@pytest.mark.parametrize("kept", [CACHED_OFFSETS, 0], ids=["few", "many"])
def test_what_is_changed_at_both_ends_is_merged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    gaps: list[Any] = []
    conditions = Pruning.conditions
    monkeypatch.setattr(Pruning, "conditions", lambda where, row: gaps.append(where.gap) or conditions(where, row))
    monkeypatch.setattr(stats, "MOST_LISTED", 3)
    monkeypatch.setattr(topic_batch, "FEW_RECORDS", min(kept, FEW_RECORDS))
    monkeypatch.setattr(topic_batch, "KEPT_OFFSETS", kept)
    topic = Topic(spark)
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
