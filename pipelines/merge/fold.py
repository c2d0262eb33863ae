"""Fold change rows to the newest state of each key.

The Kafka offset orders (one key, one partition). A value that PostgreSQL left out of an update because it hadn't
changed is taken from the newest earlier event of the batch that has it, and otherwise left to the table, which
``__keep`` says. A create begins a row's life: nothing from before it is the row's, in the batch or in the table. So a
row whose create lacks a value that nothing later gave is lost (``__lost``): its key has no row, until a letter is dealt
with.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.schema.columns import SHAPES, TableShape
from pipelines.schema.technical import TECHNICAL
from pipelines.sources.base.change_rows import CREATES, DELETE, UPSERT
from pipelines.sql import quote

# Of a number that orders as the offset does; Kafka holds fewer partitions, and fewer than 2^47 records in each.
PARTITION_BITS = 16
OP, KEEP, LOST, LACKS = "__op", "__keep", "__lost", "__lacks"


def fold(
    changes: DataFrame, shape: TableShape, keys: Sequence[str], has_unavailable: bool, order: Column | None = None,
    more: Sequence[tuple[str, Column]] = (),
) -> DataFrame:  # fmt: skip
    """Return one row a key, with the newest state of the key.

    A row has the source's columns, the technical ones, ``__op`` (``u`` or ``d``), and with ``has_unavailable``
    ``__keep``, a struct of booleans that says which columns the table's own value stays in, ``__lost``, and
    ``__lacks``, such a struct that says which have lost their value.

    ``changes``: change rows (:mod:`pipelines.sources.base.change_rows`) without a problem and without truncates.
    ``order``: what orders the events of a key instead of the offset, where they may be on several partitions. ``more``:
    aggregates of each key's events, which the rows have as well, by name.
    """
    values = F.col("row")
    order = F.col("offset") if order is None else order
    newest = F.max_by(F.struct("op", "partition", "offset", "log_position", "committed_at", "row"), order).alias(
        "newest"
    )
    inherited = [_newest_known(column.name, order) for column in shape.toastable] if has_unavailable else []
    key_columns = [values.getField(key).alias(f"key_{index}") for index, key in enumerate(keys)]
    others = [aggregate.alias(name) for name, aggregate in more]
    folded = changes.groupBy(*key_columns).agg(newest, *inherited, *others)
    kept = [F.col(name) for name, _ in more]
    return folded.select(*_columns(changes.sparkSession._jvm, shape, has_unavailable), *kept)


def newest_positions(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the position of each key's newest event (``at``), and the key (``row``, a struct of its columns).

    ``changes``: as for :func:`fold`.
    """
    key_columns = [F.col("row").getField(key).alias(f"key_{index}") for index, key in enumerate(keys)]
    row = F.struct(*[F.col(f"key_{index}").alias(key) for index, key in enumerate(keys)])
    # Of numbers, unlike of rows, Spark finds the greatest without sorting.
    return changes.groupBy(*key_columns).agg(F.max(_position()).alias("at")).select("at", row.alias("row"))


def at_positions(changes: DataFrame, positions: DataFrame) -> DataFrame:
    """Return those of ``changes`` that are at one of these positions (``at``)."""
    wanted = F.broadcast(positions.select("at"))
    return changes.withColumn("at", _position()).join(wanted, "at", "left_semi").drop("at")


def without_outdated(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return ``changes`` without replayed dead letters that newer events of their key have overtaken.

    The log position tells which are newer.
    """
    key = F.struct(*[F.col("row").getField(name).alias(name) for name in keys])
    of_key = Window.partitionBy(key).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    newest = F.max(F.when(~F.col("replayed"), F.col("log_position"))).over(of_key)
    marked = changes.withColumn("newest", newest)
    return marked.where(
        ~F.col("replayed") | F.col("newest").isNull() | (F.col("log_position") >= F.col("newest"))
    ).drop("newest")


def every_event(changes: DataFrame, shape: TableShape) -> DataFrame:
    """Return what :func:`fold` does where every event is a row of its own."""
    newest = F.struct("op", "partition", "offset", "log_position", "committed_at", "row").alias("newest")
    return changes.select(newest).select(*_columns(changes.sparkSession._jvm, shape, has_unavailable=False))


def _position() -> Column:
    return F.shiftleft("offset", PARTITION_BITS).bitwiseOR(F.col("partition"))


def _newest_known(column: str, order: Column) -> Column:
    missing = F.col("unavailable").getField(column)
    known = (F.col("op") != DELETE) & (~missing | F.col("op").isin(*CREATES))
    value = F.struct(F.col("row").getField(column).alias("value"), missing.alias("lost"))
    return F.max_by(F.when(known, value), F.when(known, order)).alias(f"known_{column}")


@lru_cache(maxsize=SHAPES)
def _columns(_jvm: Any, shape: TableShape, has_unavailable: bool) -> list[Column]:
    row = F.col("newest").getField("row")
    toastable = {column.name for column in shape.toastable} if has_unavailable else set()
    known = {name: F.col(quote(f"known_{name}")) for name in toastable}
    deleted = F.col("newest.op") == DELETE
    losses = {name: F.coalesce(value.getField("lost"), F.lit(False)) for name, value in known.items()}
    lost = reduce(Column.__or__, losses.values(), F.lit(False))
    columns = [
        (known[name].getField("value") if name in known else row.getField(name)).alias(name)
        for name in shape.column_names
    ]
    technical = [F.col(f"newest.{field}").alias(name) for name, field in TECHNICAL.items()]
    operation = F.when(deleted | lost, F.lit(DELETE)).otherwise(F.lit(UPSERT)).alias(OP)
    if not toastable:
        return [*columns, *technical, operation]
    keep = F.struct(*[(~deleted & known[c.name].isNull()).alias(c.name) for c in shape.toastable if c.name in known])
    lacks = F.struct(*[losses[c.name].alias(c.name) for c in shape.toastable])
    return [*columns, *technical, operation, keep.alias(KEEP), (~deleted & lost).alias(LOST), lacks.alias(LACKS)]
