"""Many changes of keys that the table lacks: appended, tied to the snapshot that lacked them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.lake.commit import commit
from pipelines.limits import Limits
from pipelines.merge import keyed
from pipelines.merge.statement import append_rows
from pipelines.specs.layout import Layout
from tests.unit.pipelines.harness import Topic, create, delete, truncate, update


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How parts were written."""
    found: list[str] = []

    def noted(how: Callable[..., None]) -> Callable[..., None]:
        def write(*given: Any, **settings: Any) -> None:
            found.append(how.__name__)
            how(*given, **settings)

        return write

    monkeypatch.setattr(keyed, "commit", noted(commit))
    monkeypatch.setattr(keyed, "append_rows", noted(append_rows))
    return found


# Every batch is of many records.
MANY = Limits(few_records=0, cached_offsets=0)


def topic_of_many(spark: SparkSession, limits: Limits = MANY) -> Topic:
    topic = Topic(spark, budget=None)
    topic.limits = limits
    return topic


def after_another(topic: Topic, row: str) -> Callable[..., None]:
    """What appends, if another writer adds ``row`` right before it."""

    def late(*given: Any, **settings: Any) -> None:
        topic.spark.sql(f"INSERT INTO lake.shop.{topic.table} SELECT {row}, current_timestamp(), 'c'")
        append_rows(*given, **settings)

    return late


@pytest.mark.parametrize("partition", [(), ("bucket(2, id)",)], ids=["", "with partitions"])
def test_new_keys_are_appended(spark: SparkSession, writes: list[str], partition: tuple[str, ...]) -> None:
    topic = topic_of_many(spark)
    mirror = topic.mirror(layout=Layout(partition=partition))
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in range(1, 30, 2)]), 0)
    topic.apply(mirror, topic.batch([create(n, n, "b") for n in range(30, 40)]), 1)
    # Among those that are there.
    topic.apply(mirror, topic.batch([create(40 + n, n, "c") for n in range(2, 36, 2) if n < 30]), 2)
    assert writes == ["append_rows", "append_rows", "append_rows"]
    assert topic.rows() == [
        *((n, "a" if n % 2 else "c", "d") for n in range(1, 30)), *((n, "b", "d") for n in range(30, 40)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([create(20, 4, "b"), create(21, 3, "b")], [(1, "a"), (2, "a"), (3, "b"), (4, "b")]),
        ([create(20, 4, "b"), update(21, 4, "c"), update(22, 1, "c")], [(1, "c"), (2, "a"), (3, "a"), (4, "c")]),
        ([create(20, 4, "b"), delete(21, 3)], [(1, "a"), (2, "a"), (4, "b")]),
        ([create(20, 4, "b"), truncate(21), create(22, 5, "c")], [(5, "c")]),
    ],
    ids=["a key is there", "updates", "deletes", "a truncate"],
)
@pytest.mark.slow
def test_the_rest_is_merged(
    spark: SparkSession, writes: list[str], events: list[object], left: list[tuple[int, str]]
) -> None:
    topic = topic_of_many(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in (1, 2, 3)]), 0)
    topic.apply(mirror, topic.batch(events), 1)
    assert writes == ["append_rows", "commit"]
    assert topic.rows() == [(key, name, "d") for key, name in left]


def test_where_many_rows_are_near_they_are_not_looked_through(spark: SparkSession, writes: list[str]) -> None:
    topic = topic_of_many(spark, replace(MANY, near_rows=3))
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in (2, 4, 6, 8, 20)]), 0)
    topic.apply(mirror, topic.batch([create(21, 1, "b"), create(22, 9, "b")]), 1)
    topic.apply(mirror, topic.batch([create(31, 5, "c"), create(32, 10, "c")]), 2)
    assert writes == ["append_rows", "commit", "append_rows"]
    assert [key for key, *_ in topic.rows()] == [1, 2, 4, 5, 6, 8, 9, 10, 20]


@pytest.mark.parametrize("partition", [(), ("bucket(2, id)",)], ids=["", "with partitions"])
def test_of_few_changes_only_the_bounds_of_files_are_asked(
    spark: SparkSession, writes: list[str], partition: tuple[str, ...]
) -> None:
    topic = Topic(spark, budget=None)
    mirror = topic.mirror(layout=Layout(partition=partition))
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in (1, 2, 4)]), 0)
    topic.apply(mirror, topic.batch([create(11, 5, "b"), create(12, 7, "b")]), 1)
    topic.apply(mirror, topic.batch([create(21, 6, "c")]), 2)
    topic.apply(mirror, topic.batch([create(n, n, "d") for n in range(100, 400)]), 3)
    topic.apply(mirror, topic.batch([create(500, 500, "e"), update(501, 1, "e")]), 4)
    assert writes == ["append_rows", "append_rows", "commit", "append_rows", "commit"]
    assert [key for key, *_ in topic.rows()] == [1, 2, 4, 5, 6, 7, *range(100, 400), 500]


def test_rows_that_another_adds_after_the_look_are_not_doubled(
    spark: SparkSession, writes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(spark, budget=None)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a")]), 0)
    batch = topic.batch([create(2, 2, "b"), create(3, 3, "b")])

    with monkeypatch.context() as context:
        context.setattr(keyed, "append_rows", after_another(topic, "2, 'b', 'd', 0, 1, 2"))
        with pytest.raises(Py4JJavaError, match="Found conflicting files"):
            topic.apply(mirror, batch, 1)
    topic.apply(mirror, batch, 1)
    assert writes == ["append_rows", "commit"]
    assert topic.rows() == [(1, "a", "d"), (2, "b", "d"), (3, "b", "d")]


def test_nor_are_those_that_another_has_added_to_an_empty_table(
    spark: SparkSession, writes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(spark, budget=None)
    mirror = topic.mirror()

    batch = topic.batch([create(1, 1, "a")])
    with monkeypatch.context() as context:
        context.setattr(keyed, "append_rows", after_another(topic, "1, 'a', 'd', 0, 0, 1"))
        with pytest.raises(Py4JJavaError, match="Found conflicting files"):
            topic.apply(mirror, batch, 0)
    topic.apply(mirror, batch, 0)
    assert writes == ["commit"]
    assert topic.rows() == [(1, "a", "d")]
