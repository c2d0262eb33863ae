"""Rows are sifted by their keys: none that is concerned is left out, and few of the others pass."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes import topic_batch
from pipelines.changes.key_filter import PARAMETER, KeyFilter
from pipelines.changes.stats import MOST_LISTED
from pipelines.changes.topic_batch import CACHED_OFFSETS, FEW_RECORDS, TopicBatch, TopicOutcome
from pipelines.kafka.profile import TopicProfile
from pipelines.merge.pruning import key_filter_for, stats_request
from pipelines.sources.debezium.envelope import table_shape
from pipelines.specs.layout import Layout
from tests.unit.pipelines.harness import Topic, create, delete, update

KEYS = {
    "int": lambda n: n, "bigint": lambda n: n << 33, "string": lambda n: f"clé '{n}'",
    "decimal(20,2)": lambda n: Decimal(n) / 100, "boolean": lambda n: n % 2 == 0,
}  # fmt: skip
PASSES = KeyFilter.passes


@pytest.mark.parametrize("columns", [[kind] for kind in KEYS] + [list(KEYS)], ids=[*KEYS, "all of them"])
def test_every_key_passes_and_few_others(spark: SparkSession, columns: list[str]) -> None:
    names = tuple(f"Key of `{kind}`" for kind in columns)
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(names, columns, strict=True))
    every = spark.createDataFrame([tuple(KEYS[kind](n) for kind in columns) for n in range(-3_000, 3_000)], schema)
    every = every.select(F.struct(*[F.col(f"`{name.replace('`', '``')}`") for name in names]).alias("row"))
    changed = every.limit(300)
    slots = KeyFilter.of(names, 300)
    sieve = slots.sieve(row.slot for row in changed.select(slots.slot(F.col("row")).alias("slot")).collect())
    every.selectExpr("row.*").createOrReplaceTempView("every")
    changed.selectExpr("row.*").createOrReplaceTempView("changed")
    passed = f"SELECT * FROM every AS t WHERE {slots.passes('t')}"
    lost = spark.sql(f"SELECT * FROM changed EXCEPT ({passed})", {PARAMETER: sieve})
    assert lost.isEmpty()
    if columns != ["boolean"]:
        assert spark.sql(passed, {PARAMETER: sieve}).count() < 300 + 6_000 // 10


def test_there_are_no_more_slots_than_a_statement_can_carry() -> None:
    assert KeyFilter.of(("id",), 50_000_000).count == KeyFilter.of(("id",), 1_000_000).count
    assert len(KeyFilter.of(("id",), 50_000_000).sieve([0, 1_000_000])) <= 1 << 20


def _part(topic: Topic, rows: int) -> TopicBatch:
    seen = TopicProfile(topic.name, rows=rows)
    return TopicBatch(topic.everything(), seen, {}, 0, topic.spark, TopicOutcome(topic.name))


def test_what_is_sifted(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    table, shape = topic.lake_table(), table_shape(topic.name, ("public", topic.table), topic.value_schema)
    few, many, most = (_part(topic, rows) for rows in (MOST_LISTED, 20_000, 200_000))
    assert stats_request(many, shape, ("id",), table, None).slots == KeyFilter.of(("id",), 20_000)
    assert stats_request(few, shape, ("id",), table, None).slots is None, "they can be listed"
    assert stats_request(most, shape, ("id",), table, None).slots is None, "their keys are asked"
    assert key_filter_for(shape, ("id",), table, 200_000) == KeyFilter.of(("id",), 200_000)
    assert stats_request(many, shape, ("id",), None, None).slots is None, "there is no table yet"
    other = tuple(replace(c, type=replace(c.type, iceberg="int")) if c.name == "id" else c for c in shape.columns)
    assert stats_request(many, replace(shape, columns=other), ("id",), table, None).slots is None, (
        "an int has another hash"
    )
    both = stats_request(many, replace(shape, columns=other), ("id", "name"), table, None).slots
    assert both == KeyFilter.of(("name",), 20_000), "and the rest of the key has one"


@pytest.mark.parametrize("kept", [CACHED_OFFSETS, 0], ids=["by its facts", "by its keys"])
@pytest.mark.parametrize("partition", [(), ("bucket(2, id)",)], ids=["", "with partitions"])
def test_a_sifted_batch_is_merged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kept: int, partition: tuple[str, ...]
) -> None:
    sifted = []
    monkeypatch.setattr(topic_batch, "FEW_RECORDS", min(kept, FEW_RECORDS))
    monkeypatch.setattr(topic_batch, "KEPT_OFFSETS", kept)
    monkeypatch.setattr(KeyFilter, "passes", lambda slots, row: sifted.append(slots) or PASSES(slots, row))
    topic = Topic(spark)
    mirror = topic.mirror(layout=Layout(partition=partition))
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in range(1, 701)]), 0)
    changed = [update(1000 + n, n, "b") for n in range(1, 301)]
    topic.apply(mirror, topic.batch([*changed, create(2000, 701, "c"), delete(2001, 700)]), 1)
    assert topic.rows() == [
        *((n, "b", "d") for n in range(1, 301)), *((n, "a", "d") for n in range(301, 700)), (701, "c", "d"),
    ]  # fmt: skip
    assert len(sifted) == 1
