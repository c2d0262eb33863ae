"""Batches into large tables: what is changed and what is new are written apart, and seen at once."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from pipelines import apart, part
from tests.unit.pipelines.harness import Topic, create, delete, read, update


@pytest.fixture(autouse=True)
def every_table_is_large() -> Iterator[None]:
    with patch.object(apart, "LARGE_ROWS", 1), patch.object(part, "FEW_RECORDS", 0):
        yield


def _loaded(spark: SparkSession) -> Topic:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(k, k, f"n{k}") for k in range(1, 5)]), 0)
    return topic


def _branches(topic: Topic) -> list[str]:
    return [row.name for row in topic.spark.table(f"lake.shop.{topic.table}.refs").collect()]


def test_changed_and_new_rows_are_seen_at_once(spark: SparkSession) -> None:
    topic = _loaded(spark)
    topic.apply(
        topic.mirror(), topic.batch([update(10, 1, "b"), delete(11, 2), create(12, 9, "new"), delete(13, 77)]), 1
    )
    assert [row[:2] for row in topic.rows()] == [(1, "b"), (3, "n3"), (4, "n4"), (9, "new")]
    assert len(topic.summaries()) == 3, "two commits, and the first one of all"
    assert _branches(topic) == ["main"]
    topic.assert_ledger_is_whole()


@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([update(10, 1, "b"), delete(11, 2)], ["b", "n3", "n4"]),
        ([create(10, 8, "x"), create(11, 9, "y")], ["n1", "n2", "n3", "n4", "x", "y"]),
        ([delete(10, 8)], ["n1", "n2", "n3", "n4"]),
    ],
    ids=["all are known", "all are new", "a delete of what isn't there"],
)
def test_where_one_statement_does_there_is_one_commit(
    spark: SparkSession, events: list[tuple[object, ...]], names: list[str]
) -> None:
    topic = _loaded(spark)
    topic.apply(topic.mirror(), topic.batch(events), 1)
    assert [row[1] for row in topic.rows()] == names
    assert spark.table(f"lake.shop.{topic.table}.snapshots").count() == 2
    topic.assert_ledger_is_whole()


def test_an_older_event_never_replaces_a_newer_row(spark: SparkSession) -> None:
    topic = _loaded(spark)
    topic.apply(topic.mirror(), topic.batch([update(20, 1, "newer")]), 1)
    topic.apply(topic.mirror(), topic.batch([update(15, 1, "older"), create(21, 9, "new"), read(22, 3, "read")]), 2)
    assert [row[1] for row in topic.rows()] == ["newer", "n2", "read", "n4", "new"]


def test_what_fails_amid_it_is_not_seen_and_begins_anew(spark: SparkSession) -> None:
    topic = _loaded(spark)
    batch = topic.batch([update(10, 1, "b"), delete(11, 2), create(12, 9, "new")])
    mirror = topic.mirror()
    with patch.object(apart, "append_sql", side_effect=OSError("killed")), pytest.raises(OSError, match="killed"):
        topic.apply(mirror, batch, 1)
    assert [row[1] for row in topic.rows()] == ["n1", "n2", "n3", "n4"]
    assert sorted(_branches(topic)) == [apart.BRANCH, "main"]
    topic.apply(mirror, batch, 1)
    assert [row[1] for row in topic.rows()] == ["b", "n3", "n4", "new"]
    assert _branches(topic) == ["main"]
    topic.assert_ledger_is_whole()


def test_what_somebody_else_wrote_meanwhile_isnt_lost(spark: SparkSession) -> None:
    topic = _loaded(spark)
    batch, mirror, statement = topic.batch([update(10, 1, "b"), create(12, 9, "new")]), topic.mirror(), apart.append_sql

    def late(*arguments: object) -> str:
        spark.sql(f"DELETE FROM lake.shop.{topic.table} WHERE id = 4")
        return statement(*arguments)  # type: ignore[arg-type]

    with patch.object(apart, "append_sql", side_effect=late), pytest.raises(Exception, match="not an ancestor"):
        topic.apply(mirror, batch, 1)
    topic.apply(mirror, batch, 1)
    assert [row[1] for row in topic.rows()] == ["b", "n2", "n3", "new"]
    topic.assert_ledger_is_whole()


def test_a_table_is_large_if_much_of_it_must_be_read(spark: SparkSession) -> None:
    topic = Topic(spark)
    for first in (1, 101):
        topic.apply(topic.mirror(), topic.batch([create(k, k, "a") for k in range(first, first + 50)]), first)
    table = topic.lake_table()
    plan = apart.MergePlan(table.sql_name, "c", ("id",), ("id",), bounds={"id": (100, 120)})
    with patch.object(apart, "LARGE_ROWS", 51):
        assert not apart.is_large(spark, table, plan), "the other file is pruned"
        assert apart.is_large(spark, table, apart.replace(plan, bounds={"id": (50, 120)}))
        assert not apart.is_large(spark, table, apart.replace(plan, bounds=None, truncated_lsn=1))
    with patch.object(apart, "LARGE_ROWS", 50):
        assert apart.is_large(spark, table, plan)
