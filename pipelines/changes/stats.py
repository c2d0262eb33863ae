"""Facts: what a table's change rows amount to, and where their keys are."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.changes.key_filter import KeyFilter
from pipelines.changes.key_histogram import KeyHistogram
from pipelines.schema.columns import SHAPES, TableShape
from pipelines.sources.base.change_rows import BROKEN, CREATES, FOUND_BROKEN, TRUNCATE, any_unavailable

PRUNABLE = ("int", "long", "string")
NUMBERS = ("int", "long")
LISTABLE = (*PRUNABLE, "uuid")
# Of whose values a set makes the same groups as a query does (not so of 0.0 and -0.0), and which Python can hold all of
# (not so of dates after the year 9999).
GROUPABLE = (*LISTABLE, "boolean")
# More keys than these cost the planner more than the files that they are not in would cost the merge.
MOST_LISTED = 200


@dataclass(frozen=True)
class StatsRequest:
    """What rows are asked for beside their counts and times. ``few``: where it can be listed, which keys there are
    changes of. ``slots``: which of them these keys have. ``ruler``: on which of its stretches they are.
    """

    few: bool
    slots: KeyFilter | None = None
    ruler: KeyHistogram | None = None


def stat_columns(rows: DataFrame, shape: TableShape, keys: tuple[str, ...], asked: StatsRequest) -> list[Column]:
    """Counts, times and bounds of decoded rows, in one pass: bounds of the key, or without one of what is removed.
    ``incomplete``: changes that lack an unchanged value, ``inheriting``: those of them that a change of key made.
    ``moved``: the newest log position of a change of a row's key that may have left out a value. ``distinct``: how many
    keys there are changes of, where rows are few, and ``touched``: which, where these are few as well; null if keys
    can't be listed. ``taken``: the slots that changed keys have; ``marks``: the stretches of the ruler that they are
    on, a bit each. ``broken``: promise of the contract to how many rows broke it.
    """
    return _aggregates(rows.sparkSession._jvm, shape, keys, asked, tuple(_promises(rows)))


@lru_cache(maxsize=SHAPES)
def _aggregates(
    _jvm: Any, shape: TableShape, keys: tuple[str, ...], asked: StatsRequest, promises: tuple[str, ...]
) -> list[Column]:
    """Made once: two hundred calls into the JVM (``_jvm``)."""
    slots, ruler = asked.slots, asked.ruler
    good = F.col("problem").isNull()
    truncates = good & (F.col("op") == TRUNCATE)
    live = good & (F.col("op") != TRUNCATE)
    lacking = any_unavailable(shape)
    arriving = live & F.col("op").isin(*CREATES) & F.col("old_key").isNotNull()
    halves = (live & F.col("leaving")) | (arriving & lacking)
    image = "row" if keys else "before"
    enforced = good | F.col("problem").startswith(BROKEN)
    bounded = bounded_columns(shape, keys)
    listed = asked.few and keys and all(has_exact_groups(c.type.iceberg) for c in shape.columns if c.name in keys)
    key = F.struct(*[F.col("row").getField(name).alias(name) for name in keys])
    changed = F.collect_set(F.when(live, key)) if listed else F.lit(None).cast("array<int>")
    return [
        F.count_if(~good).alias("dead"),
        F.count_if(live).alias("live"),
        F.count_if(live & F.col("op").isin("u", "d")).alias("removals"),
        F.count_if(live & F.col("replayed")).alias("replayed"),
        F.count_if(live & lacking).alias("incomplete"),
        F.count_if(arriving & lacking).alias("inheriting"),
        F.max(F.when(halves, F.col("lsn")) if shape.toastable else F.lit(None)).cast("long").alias("moved"),
        F.count_if(truncates).alias("truncates"),
        F.max(F.when(truncates, F.col("lsn"))).alias("truncated"),
        F.min(F.unix_micros("committed_at") / 1e6).alias("oldest"),
        (F.size(changed) if listed else F.lit(None)).alias("distinct"),
        F.when(F.size(changed) <= MOST_LISTED, changed).alias("touched"),
        (F.lit(None) if slots is None else F.collect_set(F.when(live, slots.slot(F.col("row"))))).alias("taken"),
        (F.lit(None) if ruler is None else F.bit_or(F.when(live, ruler.mark(F.col("row"))))).alias("marks"),
        F.struct(
            F.lit(0).alias(""),
            *[F.count_if(enforced & F.col(FOUND_BROKEN).getField(name)).alias(name) for name in promises],
        ).alias("broken"),
        F.struct(
            F.lit(0).alias(""),
            *[F.min(F.when(live, F.col(image).getField(name))).alias(f"low {name}") for name in bounded],
            *[F.max(F.when(live, F.col(image).getField(name))).alias(f"high {name}") for name in bounded],
        ).alias("bounds"),
    ]


def folded_count(good: DataFrame, keys: tuple[str, ...]) -> int:
    """How many rows :func:`pipelines.merge.fold.fold` makes of ``good``."""
    return good.select(*[F.col("row").getField(key) for key in keys]).distinct().count()


def broken_promises(facts: Row) -> dict[str, int]:
    """Promise of the contract to how many rows broke it, where some did."""
    return {name: count for name, count in facts.broken.asDict().items() if count}


def can_be_listed(rows: int) -> bool:
    """Whether so many changes have no more keys than are listed."""
    return rows <= MOST_LISTED


def has_exact_groups(kind: Any) -> bool:
    """Whether a set of values of this type has as many as a query finds."""
    return kind in GROUPABLE or (isinstance(kind, str) and kind.startswith("decimal"))


def integer_keys(shape: TableShape, keys: tuple[str, ...]) -> list[str]:
    """The columns of a key that have whole numbers, in the key's order."""
    types = {column.name: column.type.iceberg for column in shape.columns}
    return [key for key in keys if types.get(key) in NUMBERS]


def bounded_columns(shape: TableShape, keys: tuple[str, ...]) -> list[str]:
    """The columns that have bounds."""
    # A text that isn't a key may be of any length, and a bound is part of a statement.
    kinds = PRUNABLE if keys else NUMBERS
    return [c.name for c in shape.columns if (c.name in keys or not keys) and c.type.iceberg in kinds]


def _promises(rows: DataFrame) -> list[str]:
    if FOUND_BROKEN not in rows.columns:
        return []
    kind = rows.schema[FOUND_BROKEN].dataType
    assert isinstance(kind, StructType)
    return kind.names
