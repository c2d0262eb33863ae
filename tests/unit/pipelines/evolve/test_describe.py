"""What a table's own metadata says of its contract."""

from dataclasses import replace

from pyspark.sql import SparkSession

from pipelines.evolve.describe import describe
from pipelines.lake.iceberg_schema import INEXACT
from quality.contract import Column, Contract
from tests.unit.pipelines.harness import Topic, create

CONTRACT = Contract(
    ("public", "t"), "1.2.0", "active",
    (Column("id", key=1, required=True), Column("name", description="Who it is.", classification="personal"),
     Column("doc", classification="internal")),
    description="People.", owner="care", steward="office", freshness_seconds=10.0,
)  # fmt: skip


def mirrored(spark: SparkSession, contract: Contract | None = CONTRACT) -> Topic:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=contract), topic.batch([create(1, 1, "a")]), 0)
    return topic


def said(topic: Topic) -> dict[str, str]:
    properties = topic.lake_table().properties
    return {
        name: value for name, value in properties.items() if name.startswith("lakehouse.contract.") or name == "comment"
    }


def test_a_table_says_what_its_contract_says(spark: SparkSession) -> None:
    topic = mirrored(spark)
    assert said(topic) == {
        "comment": "People.", "lakehouse.contract.version": "1.2.0", "lakehouse.contract.status": "active",
        "lakehouse.contract.owner": "care", "lakehouse.contract.steward": "office",
        "lakehouse.contract.freshness-seconds": "10",
        "lakehouse.contract.classification": '{"name": "personal", "doc": "internal"}',
    }  # fmt: skip
    comments = topic.lake_table().comments
    assert (comments["id"], comments["name"], comments["doc"]) == (None, "Who it is. [personal]", "[internal]")
    shown = {r.col_name: r.comment for r in spark.sql(f"DESCRIBE lake.shop.{topic.table}").collect()}
    assert shown["name"] == "Who it is. [personal]"


def test_nothing_is_written_twice(spark: SparkSession) -> None:
    topic = mirrored(spark)
    assert describe(topic.lake_table(), CONTRACT) == []


def test_a_new_process_follows_a_new_contract_though_no_row_comes(spark: SparkSession) -> None:
    topic = mirrored(spark)
    newer = replace(CONTRACT, version="2.0.0", owner=None, columns=CONTRACT.columns[:2])
    topic.apply(topic.mirror(contract=newer), topic.batch([]), 1)
    assert said(topic)["lakehouse.contract.version"] == "2.0.0"
    assert "lakehouse.contract.owner" not in said(topic)
    assert topic.lake_table().comments["doc"] is None


def test_without_its_contract_a_table_says_nothing_of_one(spark: SparkSession) -> None:
    topic = mirrored(spark)
    topic.apply(topic.mirror(contract=None), topic.batch([create(2, 2, "b")]), 1)
    assert said(topic) == {}
    assert set(topic.lake_table().comments.values()) == {None}


def test_a_comment_of_somebody_elses_stays_where_there_was_no_contract(spark: SparkSession) -> None:
    topic = mirrored(spark, None)
    spark.sql(f"COMMENT ON TABLE lake.shop.{topic.table} IS 'mine'")
    assert describe(topic.lake_table(), None) == []
    assert said(topic) == {"comment": "mine"}


def test_what_the_lake_lost_of_a_column_is_still_said(spark: SparkSession) -> None:
    topic = mirrored(spark, None)
    spark.sql(f"ALTER TABLE lake.shop.{topic.table} ALTER COLUMN name COMMENT '{INEXACT}microseconds'")
    describe(topic.lake_table(), CONTRACT)
    assert topic.lake_table().comments["name"] == f"Who it is. [personal] {INEXACT}microseconds"
    describe(topic.lake_table(), None)
    assert topic.lake_table().comments["name"] == f"{INEXACT}microseconds"


def test_what_is_protected_is_said(spark: SparkSession) -> None:
    columns = (CONTRACT.columns[0], replace(CONTRACT.columns[1], protection="hash"), CONTRACT.columns[2])
    topic = mirrored(spark, replace(CONTRACT, columns=columns))
    assert said(topic)["lakehouse.contract.protected"] == '{"name": "hash"}'
    assert topic.lake_table().comments["name"] == "Who it is. [personal] [protected: hash]"
