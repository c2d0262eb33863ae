"""Inherit the unchanged values that a key change left out.

A primary-key change arrives as a delete of the old key and a create of the new one, and PostgreSQL leaves unchanged
TOAST values out of that create. They belong to the row under its old key: in an earlier event of the batch, or in the
table. Only once the delete of the old key is in the batch, though: until its partition has come that far, what is known
of the old key may be older than what the row took along.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.merge.fold import KEEP, LOST
from pipelines.schema.columns import TableShape
from pipelines.sources.base.change_rows import CREATES, DELETE, UNAVAILABLE, any_unavailable
from pipelines.sql import quote

MAX_KEY_CHANGES = 16


def inherit(changes: DataFrame, shape: TableShape, keys: Sequence[str], table: DataFrame) -> DataFrame:
    """Return ``changes`` with the values that creates after a key change lack, wherever they can be found.

    ``table``: the mirror before this batch. Follows up to ``MAX_KEY_CHANGES`` changes of one row's key in the batch.
    What can't be found stays marked as unavailable.
    """
    moved = changes.where(F.col("op").isin(*CREATES) & F.col("old_key").isNotNull())
    orphans = moved.where(any_unavailable(shape))
    if orphans.isEmpty():
        return changes
    keyed = changes.withColumn("key", _key(F.col("row"), keys))
    ancestors = _left_keys(_ancestors(_moves(moved, keys), orphans.select("partition", "offset")), keyed)
    known = _known_values(keyed, table, shape, keys, ancestors)
    return _filled(changes, known, shape)


def missing_counts(shape: TableShape, keys: Sequence[str]) -> list[Column]:
    """Return the columns that count what folded changes lack.

    ``lost``: how many have lost an unchanged value; ``find``: how many must find one in the table, and ``hashes``: the
    hashes of their keys together.
    """
    hashes = F.when(_must_find(shape), _hash(keys))
    return [F.count_if(F.col(LOST)).alias("lost"), F.count(hashes).alias("find"), F.bit_xor(hashes).alias("hashes")]


def all_known(changes: DataFrame, shape: TableShape, present: DataFrame, counts: Row, few: bool) -> bool:
    """Return whether none of the folded ``changes`` lacks a value that nobody knows.

    ``counts``: what :func:`missing_counts` found in them. ``present``: the keys that the table has. ``few``: of
    changes, so that they are sent to where the table is read, not all its keys to them.
    """
    if counts.lost:
        return False
    keys = present.columns
    lacking = changes.where(_must_find(shape)).select(*map(quote, keys))
    found = present.join(F.broadcast(lacking) if few else lacking, keys, "left_semi")
    # By their number alone a key that the table had twice would stand for one that it lacks.
    has = found.agg(F.count("*").alias("find"), F.bit_xor(_hash(keys)).alias("hashes")).collect()[0]
    return (has.find, has.hashes) == (counts.find, counts.hashes)


def orphans(changes: DataFrame, shape: TableShape, present: DataFrame) -> DataFrame:
    """Return ``partition``, ``offset`` and ``problem`` of the folded changes that lack a value which nobody knows.

    Those are rows whose create lost it, and rows that the table hasn't got either. ``present``: the keys that it has.
    """
    unknown = changes.where(_must_find(shape)).join(present, present.columns, "left_anti")
    lacking = changes.where(F.col(LOST)).unionByName(unknown)
    return lacking.select(
        F.col("_kafka_partition").alias("partition"),
        F.col("_kafka_offset").alias("offset"),
        F.lit(UNAVAILABLE).alias("problem"),
    )


def _hash(keys: Sequence[str]) -> Column:
    return F.xxhash64(*[F.col(quote(key)) for key in keys])


def _must_find(shape: TableShape) -> Column:
    incomplete = reduce(Column.__or__, [F.col(KEEP).getField(c.name) for c in shape.toastable], F.lit(False))
    return ~F.col(LOST) & incomplete


def _key(row: Column, keys: Sequence[str]) -> Column:
    return F.struct(*[row.getField(key).alias(key) for key in keys])


def _moves(moved: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return position, new key, old key and log position of each key change."""
    row_type = moved.schema["row"].dataType
    assert isinstance(row_type, StructType)
    key_type = StructType([row_type[key] for key in keys])
    old_key = F.from_json("old_key", key_type)
    return moved.select(
        "partition", "offset", _key(F.col("row"), keys).alias("key"), old_key.alias("old_key"), "log_position"
    ).localCheckpoint()


def _ancestors(moves: DataFrame, orphans: DataFrame) -> DataFrame:
    """Return, for each orphan, every key its row had before, and the log position at which it left that key."""
    found = moves.join(orphans, ["partition", "offset"]).select(
        "partition", "offset", F.col("old_key").alias("ancestor"), F.col("log_position").alias("until")
    )
    every, latest = found, found
    edges = moves.select(
        F.col("key").alias("to_key"), F.col("old_key").alias("from_key"), F.col("log_position").alias("at")
    )
    for _ in range(MAX_KEY_CHANGES):
        latest = (
            latest.join(edges, (F.col("ancestor") == F.col("to_key")) & (F.col("at") < F.col("until")))
            .groupBy("partition", "offset", "ancestor")
            .agg(F.max_by(F.struct("from_key", "at"), "at").alias("step"))
            .select("partition", "offset", F.col("step.from_key").alias("ancestor"), F.col("step.at").alias("until"))
            .localCheckpoint()
        )
        if latest.isEmpty():
            break
        every = every.union(latest)
    return every


def _left_keys(ancestors: DataFrame, keyed: DataFrame) -> DataFrame:
    """Return those of ``ancestors`` whose row has left its key in the batch."""
    deletes = keyed.where(F.col("op") == DELETE).select(
        F.col("key").alias("ancestor"), F.col("log_position").alias("until")
    )
    return ancestors.join(deletes, ["ancestor", "until"], "left_semi")


def _known_values(
    keyed: DataFrame, table: DataFrame, shape: TableShape, keys: Sequence[str], ancestors: DataFrame
) -> DataFrame:
    """Return, for each orphan, the newest known value of each toastable column among its row's former selves."""
    columns = shape.toastable
    events = keyed.where(F.col("op") != DELETE).select(
        F.col("key").alias("event_key"),
        F.col("log_position").alias("event_position"),
        F.col("op").isin(*CREATES).alias("born"),
        *[
            F.when(
                ~F.col("unavailable").getField(c.name), F.struct(F.col("row").getField(c.name).alias("value"))
            ).alias(f"value_{i}")
            for i, c in enumerate(columns)
        ],
    )
    stored = table.select(
        F.struct(*[F.col(quote(key)).alias(key) for key in keys]).alias("event_key"),
        F.col("_lsn").alias("event_position"),
        F.lit(False).alias("born"),
        *[F.struct(F.col(quote(c.name)).alias("value")).alias(f"value_{i}") for i, c in enumerate(columns)],
    )
    same_key = (F.col("ancestor") == F.col("event_key")) & (F.col("event_position") < F.col("until"))
    lives = ancestors.join(events.unionByName(stored), same_key)
    birth = (
        lives.where("born")
        .groupBy("partition", "offset", "ancestor", "until")
        .agg(F.max("event_position").alias("birth"))
    )
    own = lives.join(birth, ["partition", "offset", "ancestor", "until"], "left").where(
        F.col("birth").isNull() | (F.col("event_position") >= F.col("birth"))
    )
    return own.groupBy("partition", "offset").agg(
        *[
            F.max_by(F.col(f"value_{i}"), F.when(F.col(f"value_{i}").isNotNull(), F.col("event_position"))).alias(
                f"known_{i}"
            )
            for i in range(len(columns))
        ]
    )


def _filled(changes: DataFrame, known: DataFrame, shape: TableShape) -> DataFrame:
    order = {column.name: i for i, column in enumerate(shape.toastable)}
    row, unavailable = F.col("row"), F.col("unavailable")

    def value(name: str) -> Column:
        if name not in order:
            return row.getField(name)
        found = F.col(f"known_{order[name]}")
        use = unavailable.getField(name) & found.isNotNull()
        return F.when(use, found.getField("value")).otherwise(row.getField(name))

    joined = changes.join(F.broadcast(known), ["partition", "offset"], "left")
    return joined.withColumns(
        {
            "row": F.struct(*[value(name).alias(name) for name in shape.column_names]),
            "unavailable": F.struct(
                F.lit(None).cast("boolean").alias(""),
                *[
                    (unavailable.getField(c.name) & F.col(f"known_{order[c.name]}").isNull()).alias(c.name)
                    for c in shape.toastable
                ],
            ),
        }
    ).select(*changes.columns)
