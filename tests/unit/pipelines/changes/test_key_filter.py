"""Rows are sifted by their keys: none that is concerned is left out, and few of the others pass."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.changes import stats as facts
from pipelines.changes import topic_batch as part
from pipelines.changes.key_filter import PARAMETER, Slots
from pipelines.changes.topic_batch import Outcome, Part
from pipelines.kafka.profile import TopicProfile
from pipelines.merge.pruning import asked, sifting
from pipelines.sources.debezium.envelope import table_shape
from pipelines.specs.layout import Layout
from tests.unit.pipelines.harness import Topic, create, delete, update

KEYS = {
    "int": lambda n: n, "bigint": lambda n: n << 33, "string": lambda n: f"clé '{n}'",
    "decimal(20,2)": lambda n: Decimal(n) / 100, "boolean": lambda n: n % 2 == 0,
}  # fmt: skip
PASSES = Slots.passes


@pytest.mark.parametrize("columns", [[kind] for kind in KEYS] + [list(KEYS)], ids=[*KEYS, "all of them"])
def test_every_key_passes_and_few_others(spark: SparkSession, columns: list[str]) -> None:
    names = tuple(f"Key of `{kind}`" for kind in columns)
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(names, columns, strict=True))
    every = spark.createDataFrame([tuple(KEYS[kind](n) for kind in columns) for n in range(-3_000, 3_000)], schema)
    every = every.select(F.struct(*[F.col(f"`{name.replace('`', '``')}`") for name in names]).alias("row"))
    changed = every.limit(300)
    slots = Slots.of(names, 300)
    sieve = slots.sieve(row.slot for row in changed.select(slots.slot(F.col("row")).alias("slot")).collect())
    every.selectExpr("row.*").createOrReplaceTempView("every")
    changed.selectExpr("row.*").createOrReplaceTempView("changed")
    passed = f"SELECT * FROM every AS t WHERE {slots.passes('t')}"
    lost = spark.sql(f"SELECT * FROM changed EXCEPT ({passed})", {PARAMETER: sieve})
    assert lost.isEmpty()
    if columns != ["boolean"]:
        assert spark.sql(passed, {PARAMETER: sieve}).count() < 300 + 6_000 // 10


def test_there_are_no_more_slots_than_a_statement_can_carry() -> None:
    assert Slots.of(("id",), 50_000_000).count == Slots.of(("id",), 1_000_000).count
    assert len(Slots.of(("id",), 50_000_000).sieve([0, 1_000_000])) <= 1 << 20


def _part(topic: Topic, rows: int) -> Part:
    seen = TopicProfile(topic.name, rows=rows)
    return Part(topic.everything(), seen, {}, 0, topic.spark, Outcome(topic.name))


def test_what_is_sifted(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    table, shape = topic.lake_table(), table_shape(topic.name, ("public", topic.table), topic.value_schema)
    few, many, most = (_part(topic, rows) for rows in (facts.MOST_LISTED, 20_000, 200_000))
    assert asked(many, shape, ("id",), table, None).slots == Slots.of(("id",), 20_000)
    assert asked(few, shape, ("id",), table, None).slots is None, "they can be listed"
    assert asked(most, shape, ("id",), table, None).slots is None, "their keys are asked"
    assert sifting(shape, ("id",), table, 200_000) == Slots.of(("id",), 200_000)
    assert asked(many, shape, ("id",), None, None).slots is None, "there is no table yet"
    other = tuple(replace(c, type=replace(c.type, iceberg="int")) if c.name == "id" else c for c in shape.columns)
    assert asked(many, replace(shape, columns=other), ("id",), table, None).slots is None, "an int has another hash"
    both = asked(many, replace(shape, columns=other), ("id", "name"), table, None).slots
    assert both == Slots.of(("name",), 20_000), "and the rest of the key has one"


@pytest.mark.parametrize("kept", [part.KEPT_OFFSETS, 0], ids=["by its facts", "by its keys"])
@pytest.mark.parametrize("partition", [(), ("bucket(2, id)",)], ids=["", "with partitions"])
def test_a_sifted_batch_is_merged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kept: int, partition: tuple[str, ...]
) -> None:
    sifted = []
    monkeypatch.setattr(part, "FEW_RECORDS", min(kept, part.FEW_RECORDS))
    monkeypatch.setattr(part, "KEPT_OFFSETS", kept)
    monkeypatch.setattr(Slots, "passes", lambda slots, row: sifted.append(slots) or PASSES(slots, row))
    topic = Topic(spark)
    mirror = topic.mirror(layout=Layout(partition=partition))
    topic.apply(mirror, topic.batch([create(n, n, "a") for n in range(1, 701)]), 0)
    changed = [update(1000 + n, n, "b") for n in range(1, 301)]
    topic.apply(mirror, topic.batch([*changed, create(2000, 701, "c"), delete(2001, 700)]), 1)
    assert topic.rows() == [
        *((n, "b", "d") for n in range(1, 301)), *((n, "a", "d") for n in range(301, 700)), (701, "c", "d"),
    ]  # fmt: skip
    assert len(sifted) == 1
