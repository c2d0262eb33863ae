"""A plan that is made once gives each run what it was asked for, or isn't made."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.spark.dataframes import from_rows
from pipelines.spark.prepared import PLANNED_ONCE, KeepsState, PreparedPlan, leaf
from pipelines.spark.session import configured


def words(nothing: Iterable[Any]) -> Iterator[Any]:
    for _ in nothing:
        pass
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    asked = str(context.getLocalProperty("lakehouse.asked")).split()
    yield pa.RecordBatch.from_arrays([pa.array(asked)], ["word"])


def read(nothing: Iterable[Any]) -> Iterator[Any]:
    yield from words(nothing)


def test_each_run_is_of_what_it_was_asked_for(spark: SparkSession) -> None:
    with configured(spark, PLANNED_ONCE):
        plan = PreparedPlan(leaf(spark, read, "word string").groupBy("word").agg(F.count("*").alias("times")))
    asked = ["a b a", "c", "", "b b b"]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(plan.run, asked))
    counts = [{row["word"]: row["times"] for row in rows.to_pylist()} for rows in found]
    assert counts == [{"a": 2, "b": 1}, {"c": 1}, {}, {"b": 3}]


FRAMES: dict[str, Callable[[SparkSession, DataFrame], DataFrame]] = {
    "an exchange": lambda _, frame: frame.repartition(2),
    "a broadcast": lambda spark, frame: frame.join(F.broadcast(spark.range(3)), F.length("word") == F.col("id")),
    "a subquery": lambda spark, frame: frame.where(F.length("word") == spark.range(9).select(F.max("id")).scalar()),
    "a cache": lambda _, frame: frame.select("word").persist(),
}


@pytest.mark.parametrize("keeping", FRAMES.values(), ids=FRAMES)
def test_a_plan_that_keeps_what_it_found_is_refused(
    spark: SparkSession, keeping: Callable[[SparkSession, DataFrame], DataFrame]
) -> None:
    with configured(spark, PLANNED_ONCE), pytest.raises(KeepsState):
        PreparedPlan(keeping(spark, leaf(spark, read, "word string")))
    spark.catalog.clearCache()


def test_a_plan_may_look_at_a_constant(spark: SparkSession) -> None:
    with configured(spark, PLANNED_ONCE):
        constant = from_rows(spark, [("a",)], "word string").select("word").scalar()
        plan = PreparedPlan(leaf(spark, read, "word string").where(F.col("word") == constant))
    assert plan.run("a b a").num_rows == 2
