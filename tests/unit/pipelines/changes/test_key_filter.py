"""Rows are filtered by their keys: none that is concerned is left out, and few of the others pass."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes.key_filter import PARAMETER, KeyFilter
from pipelines.limits import Limits
from pipelines.merge.pruning import key_filter_for, stats_request
from pipelines.sources.debezium.envelope import table_shape
from pipelines.sources.postgres.dialect import POSTGRES
from pipelines.specs.layout import Layout
from tests.unit.pipelines.harness import Topic, create, delete, update

KEYS = {
    "int": lambda n: n, "bigint": lambda n: n << 33, "string": lambda n: f"clé '{n}'",
    "decimal(20,2)": lambda n: Decimal(n) / 100, "boolean": lambda n: n % 2 == 0,
}  # fmt: skip
CONDITION = KeyFilter.condition
MOST = Limits().filter_buckets


@pytest.mark.parametrize("columns", [[kind] for kind in KEYS] + [list(KEYS)], ids=[*KEYS, "all of them"])
@pytest.mark.slow
def test_every_key_passes_and_few_others(spark: SparkSession, columns: list[str]) -> None:
    names = tuple(f"Key of `{kind}`" for kind in columns)
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(names, columns, strict=True))
    every = spark.createDataFrame([tuple(KEYS[kind](n) for kind in columns) for n in range(-3_000, 3_000)], schema)
    every = every.select(F.struct(*[F.col(f"`{name.replace('`', '``')}`") for name in names]).alias("row"))
    changed = every.limit(300)
    key_filter = KeyFilter.of(names, 300, MOST)
    bitmap = key_filter.bitmap(
        r.bucket for r in changed.select(key_filter.bucket(F.col("row")).alias("bucket")).collect()
    )
    every.selectExpr("row.*").createOrReplaceTempView("every")
    changed.selectExpr("row.*").createOrReplaceTempView("changed")
    passed = f"SELECT * FROM every AS t WHERE {key_filter.condition('t')}"
    lost = spark.sql(f"SELECT * FROM changed EXCEPT ({passed})", {PARAMETER: bitmap})
    assert lost.isEmpty()
    if columns != ["boolean"]:
        assert spark.sql(passed, {PARAMETER: bitmap}).count() < 300 + 6_000 // 10


def test_there_are_no_more_buckets_than_a_statement_can_carry() -> None:
    assert KeyFilter.of(("id",), 50_000_000, MOST).count == KeyFilter.of(("id",), 1_000_000, MOST).count
    assert len(KeyFilter.of(("id",), 50_000_000, MOST).bitmap([0, 1_000_000])) <= 1 << 20


def test_what_is_filtered(spark: SparkSession) -> None:
    topic = Topic(spark, budget=None)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    table, shape = topic.lake_table(), table_shape(topic.name, ("public", topic.table), topic.value_schema, POSTGRES)
    limits = Limits()
    few, many, most = limits.listed_keys, 20_000, 200_000
    assert stats_request(many, shape, ("id",), table, None, limits).key_filter == KeyFilter.of(("id",), 20_000, MOST)
    assert stats_request(few, shape, ("id",), table, None, limits).key_filter is None, "they can be listed"
    assert stats_request(most, shape, ("id",), table, None, limits).key_filter is None, "their keys are asked"
    assert key_filter_for(shape, ("id",), table, 200_000, limits) == KeyFilter.of(("id",), 200_000, MOST)
    assert stats_request(many, shape, ("id",), None, None, limits).key_filter is None, "there is no table yet"
    other = tuple(replace(c, type=replace(c.type, iceberg="int")) if c.name == "id" else c for c in shape.columns)
    assert stats_request(many, replace(shape, columns=other), ("id",), table, None, limits).key_filter is None, (
        "an int has another hash"
    )
    both = stats_request(many, replace(shape, columns=other), ("id", "name"), table, None, limits).key_filter
    assert both == KeyFilter.of(("name",), 20_000, MOST), "and the rest of the key has one"


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(few_records=0, cached_offsets=0)], ids=["by its stats", "by its keys"]
)
@pytest.mark.parametrize("partition", [(), ("bucket(2, id)",)], ids=["", "with partitions"])
def test_a_filtered_batch_is_merged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: Limits, partition: tuple[str, ...]
) -> None:
    filtered = []
    monkeypatch.setattr(KeyFilter, "condition", lambda each, row: filtered.append(each) or CONDITION(each, row))
    topic = Topic(spark, budget=None)
    topic.limits = limits
    mirror = topic.mirror(layout=Layout(partition=partition))
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in range(1, 701)]), 0)
    changed = [update(1000 + n, n, "b") for n in range(1, 301)]
    topic.apply(mirror, topic.batch([*changed, create(2000, 701, "c"), delete(2001, 700)]), 1)
    assert topic.rows() == [
        *((n, "b", "d") for n in range(1, 301)), *((n, "a", "d") for n in range(301, 700)), (701, "c", "d"),
    ]  # fmt: skip
    assert len(filtered) == 1
