"""A table whose contract is blocking: what readers see, batch by batch."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.checks.audit import BRANCH
from pipelines.errors import StopPipeline
from pipelines.lake.names import CHECK_RUNS
from pipelines.ledger.entries import Counts
from quality.checks import QUERY, Check
from quality.contract import Column, Contract
from tests.unit.pipelines.harness import Topic, create, delete, insert, poison, remove, truncate, update

UNIQUE_NAMES = Contract(
    ("public", "t"), "1", "active",
    (Column("id", key=1, required=True), Column("name", unique=True, required=True),
     Column("doc", options={"maxLength": 3})),
    checks=(Check("few", QUERY, {"unexpected_rows_query": "SELECT found FROM (SELECT count(*) AS found FROM {batch})"
                                                          " WHERE found > 4"}),),
    blocking=True,
)  # fmt: skip


def audited(spark: SparkSession, *batches: list[Any], keyed: bool = True) -> tuple[Topic, Any]:
    """A topic of which these batches are published, and its mirror."""
    topic = Topic(spark, keyed)
    mirror = topic.mirror(contract=UNIQUE_NAMES if keyed else keyless())
    for number, events in enumerate(batches):
        topic.apply(mirror, topic.batch(events), number)
    return topic, mirror


def keyless() -> Contract:
    return replace(UNIQUE_NAMES, columns=(Column("id"), *UNIQUE_NAMES.columns[1:]))


def test_what_keeps_its_contract_is_published(spark: SparkSession) -> None:
    topic, _ = audited(spark, [create(1, 1, "a"), create(2, 2, "b")], [update(3, 1, "c"), delete(4, 2)])
    assert topic.rows() == [(1, "c", "d")]
    assert topic.lake_table().branches == {"main"}
    assert topic.assert_ledger_is_whole() == Counts(merged=4)


@pytest.mark.parametrize("anew", [False, True], ids=["the same process", "another one"])
def test_what_breaks_it_is_held_back_until_it_is_mended(spark: SparkSession, anew: bool) -> None:
    topic, mirror = audited(spark, [create(1, 1, "a"), create(2, 2, "b")])
    seen = topic.lake_table().snapshot_id
    broken = topic.batch([update(3, 1, "b"), create(4, 3, "x")])
    with pytest.raises(StopPipeline, match=r"isn't published, because .*: name.unique \(2 rows\)\. Readers"):
        topic.apply(mirror, broken, 1)
    assert topic.rows() == [(1, "a", "d"), (2, "b", "d")]
    assert topic.lake_table().snapshot_id == seen
    assert topic.lake_table().branches == {"main"}
    mirror = topic.mirror(contract=UNIQUE_NAMES) if anew else mirror
    topic.apply(mirror, topic.batch([update(5, 2, "c"), update(6, 3, "y")]), 2)
    assert topic.rows() == [(1, "b", "d"), (2, "c", "d"), (3, "y", "d")]
    topic.assert_ledger_is_whole()
    kept = spark.table(f"lake.lakehouse.{CHECK_RUNS}").where(f"table = 'shop.{topic.table}'").collect()
    assert [(row.success, row.failed) for row in kept] == [(False, 1)]


def test_of_a_first_batch_that_breaks_it_nothing_is_seen(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=UNIQUE_NAMES)
    with pytest.raises(StopPipeline, match=r"doc.maxLength \(1 rows\)"):
        topic.apply(mirror, topic.batch([create(1, 1, "a", "long")]), 0)
    assert topic.lake_table().snapshot_id is None
    topic.apply(mirror, topic.batch([update(2, 1, "a", "s")]), 1)
    assert topic.rows() == [(1, "a", "s")]
    topic.assert_ledger_is_whole()


@pytest.mark.slow
def test_letters_and_truncates_are_published_as_well(spark: SparkSession) -> None:
    topic, mirror = audited(spark, [create(1, 1, "a"), create(2, 2, "b")])
    topic.apply(mirror, topic.batch([poison(b"x"), truncate(3), create(4, 4, "d")]), 1)
    topic.apply(mirror, topic.batch([poison(b"y")]), 2)
    assert topic.rows() == [(4, "d", "d")]
    assert topic.letters.reasons == ["not_avro", "not_avro"]
    topic.assert_ledger_is_whole()


@pytest.mark.slow
def test_without_a_key(spark: SparkSession) -> None:
    topic, mirror = audited(spark, [insert(1, (1, "a", "d")), insert(2, (2, "b", "d"))], keyed=False)
    with pytest.raises(StopPipeline, match=r"name\.unique"):
        topic.apply(mirror, topic.batch([insert(3, (3, "a", "d"))]), 1)
    topic.apply(mirror, topic.batch([remove(4, (1, "a", "d"))]), 2)
    assert topic.rows() == [(2, "b", "d"), (3, "a", "d")]
    topic.assert_ledger_is_whole()


@pytest.mark.slow
def test_a_column_that_comes_is_there_though_its_rows_are_held_back(spark: SparkSession) -> None:
    topic, mirror = audited(spark, [create(1, 1, "a")])
    with pytest.raises(StopPipeline, match="few"):
        topic.apply(mirror, topic.batch([create(n, n, f"n{n}") for n in range(2, 7)]), 1)
    spark.sql(f"ALTER TABLE lake.shop.{topic.table} ADD COLUMN extra string")
    topic.apply(mirror, topic.batch([delete(8, 2), delete(9, 3)]), 2)
    assert [row[0] for row in topic.rows()] == [1, 4, 5, 6]


def test_a_branch_that_a_killed_mirror_left_is_given_up(spark: SparkSession) -> None:
    topic, mirror = audited(spark, [create(1, 1, "a")])
    spark.sql(f"ALTER TABLE lake.shop.{topic.table} CREATE BRANCH {BRANCH}")
    spark.sql(f"INSERT INTO lake.shop.{topic.table}.branch_{BRANCH} SELECT * FROM lake.shop.{topic.table}")
    topic.apply(mirror, topic.batch([create(2, 2, "b")]), 1)
    assert topic.rows() == [(1, "a", "d"), (2, "b", "d")]
