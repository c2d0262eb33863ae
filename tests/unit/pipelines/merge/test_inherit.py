"""Whether every unchanged value that changes left out is known: by one look at the table's keys."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pipelines.merge.fold import KEEP, LOST
from pipelines.merge.inherit import all_known, missing_counts
from pipelines.schema.columns import TableShape
from pipelines.sources.debezium.envelope import table_shape
from pipelines.sources.postgres.dialect import POSTGRES
from tests.unit.pipelines.harness import Topic

FOLDED = f"id bigint, {KEEP} struct<name: boolean, doc: boolean>, {LOST} boolean"
KEPT, WHOLE = (False, True), (False, False)


@pytest.fixture(scope="module")
def shape(spark: SparkSession) -> TableShape:
    topic = Topic(spark)
    return table_shape(topic.name, ("public", topic.table), topic.value_schema, POSTGRES)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize(
    ("present", "known"),
    [([1, 2, 3], True), ([2, 1], True), ([1, 3], False), ([1, 1, 3], False), ([2, 2], False), ([], False)],
)
def test_what_the_table_has_is_known(
    spark: SparkSession, shape: TableShape, present: list[int], known: bool, few: bool
) -> None:
    rows: list[tuple[Any, ...]] = [(1, KEPT, False), (2, KEPT, False), (7, WHOLE, False)]
    assert _all_known(spark, shape, rows, present, few) is known


def test_what_a_create_lost_is_not(spark: SparkSession, shape: TableShape) -> None:
    assert not _all_known(spark, shape, [(1, KEPT, False), (2, WHOLE, True)], [1, 2], few=True)
    assert _all_known(spark, shape, [(1, KEPT, False), (2, WHOLE, False)], [1, 2], few=True)
    assert _all_known(spark, shape, [(2, WHOLE, False)], [], few=True), "nothing is asked of the table"


def _all_known(
    spark: SparkSession, shape: TableShape, rows: list[tuple[Any, ...]], present: list[int], few: bool
) -> bool:
    changes = spark.createDataFrame(rows, StructType.fromDDL(FOLDED))
    (told,) = changes.agg(*missing_counts(shape, ["id"])).collect()
    keys = spark.createDataFrame([(key,) for key in present], StructType.fromDDL("id bigint"))
    return all_known(changes, shape, keys, told, few)
