"""Statistics of a batch's change rows: how many there are of each kind, and where their keys are."""

from collections.abc import Mapping
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


@dataclass(frozen=True)
class StatsRequest:
    """The statistics to compute beside counts and times.

    ``few``: list the keys that there are changes of, up to ``listed_keys`` of them, where they can be listed.
    ``key_filter``: say which of its buckets these keys have. ``histogram``: say in which of its buckets they are.
    """

    few: bool
    listed_keys: int
    key_filter: KeyFilter | None = None
    histogram: KeyHistogram | None = None


@dataclass(frozen=True)
class BatchStats:
    """The statistics of a table's change rows in a batch.

    ``dead``: rows with a problem; ``live``: changes without one, truncates apart; ``removals``: the live ones that
    change or delete a row, ``replayed``: that had been dead letters, ``incomplete``: that lack an unchanged value,
    ``inheriting``: of the incomplete those that a change of key made. ``moved``: the newest log position of a change of
    a row's key that may have left out a value. ``truncates``, ``truncated``: how many, and the newest one's log
    position. ``oldest``: when the oldest change was committed, in seconds since 1970. ``distinct``: how many keys there
    are changes of, where rows are few, and ``touched``: which, where these are few as well; None: keys can't be listed.
    ``filter_buckets``: the key filter's buckets that changed keys have; ``histogram_bits``: the histogram's, a bit
    each. ``broken``: promise of the contract to how many rows broke it. ``bounds``: column to the least and greatest
    value, of the key, or without a key of what is removed.
    """

    dead: int
    live: int
    removals: int
    replayed: int
    incomplete: int
    inheriting: int
    moved: int | None
    truncates: int
    truncated: int | None
    oldest: float | None
    distinct: int | None
    touched: tuple[Row, ...] | None
    filter_buckets: tuple[int, ...]
    histogram_bits: int | None
    broken: Mapping[str, int]
    bounds: Mapping[str, tuple[Any, Any]]

    @classmethod
    def of(cls, row: Row) -> "BatchStats":
        """Return the stats of the row that :func:`stat_columns` give."""
        fields = row.asDict()
        broken = {name: count for name, count in fields.pop("broken").asDict().items() if count}
        ends = fields.pop("bounds").asDict()
        names = [name.removeprefix("low ") for name in ends if name.startswith("low ")]
        pairs = {name: (ends[f"low {name}"], ends[f"high {name}"]) for name in names}
        touched, buckets = fields.pop("touched"), fields.pop("filter_buckets")
        return cls(
            **fields,
            touched=None if touched is None else tuple(touched),
            filter_buckets=tuple(buckets or ()),
            broken=broken,
            bounds={name: pair for name, pair in pairs.items() if pair[0] is not None},
        )


def stat_columns(rows: DataFrame, shape: TableShape, keys: tuple[str, ...], request: StatsRequest) -> list[Column]:
    """Return the columns of :class:`BatchStats`, which one pass over the rows computes."""
    return _aggregates(rows.sparkSession._jvm, shape, keys, request, tuple(_promises(rows)))


@lru_cache(maxsize=SHAPES)
def _aggregates(
    _jvm: Any, shape: TableShape, keys: tuple[str, ...], request: StatsRequest, promises: tuple[str, ...]
) -> list[Column]:
    """Return the aggregates, which are made once: they take two hundred calls into the JVM (``_jvm``)."""
    key_filter, histogram = request.key_filter, request.histogram
    good = F.col("problem").isNull()
    truncates = good & (F.col("op") == TRUNCATE)
    live = good & (F.col("op") != TRUNCATE)
    lacking = any_unavailable(shape)
    arriving = live & F.col("op").isin(*CREATES) & F.col("old_key").isNotNull()
    halves = (live & F.col("leaving")) | (arriving & lacking)
    image = "row" if keys else "before"
    enforced = good | F.col("problem").startswith(BROKEN)
    bounded = bounded_columns(shape, keys)
    listed = request.few and keys and all(has_exact_groups(c.type.iceberg) for c in shape.columns if c.name in keys)
    key = F.struct(*[F.col("row").getField(name).alias(name) for name in keys])
    changed = F.collect_set(F.when(live, key)) if listed else F.lit(None).cast("array<int>")
    return [
        F.count_if(~good).alias("dead"),
        F.count_if(live).alias("live"),
        F.count_if(live & F.col("op").isin("u", "d")).alias("removals"),
        F.count_if(live & F.col("replayed")).alias("replayed"),
        F.count_if(live & lacking).alias("incomplete"),
        F.count_if(arriving & lacking).alias("inheriting"),
        F.max(F.when(halves, F.col("log_position")) if shape.toastable else F.lit(None)).cast("long").alias("moved"),
        F.count_if(truncates).alias("truncates"),
        F.max(F.when(truncates, F.col("log_position"))).alias("truncated"),
        F.min(F.unix_micros("committed_at") / 1e6).alias("oldest"),
        (F.size(changed) if listed else F.lit(None)).alias("distinct"),
        F.when(F.size(changed) <= request.listed_keys, changed).alias("touched"),
        (F.lit(None) if key_filter is None else F.collect_set(F.when(live, key_filter.bucket(F.col("row"))))).alias(
            "filter_buckets"
        ),
        (F.lit(None) if histogram is None else F.bit_or(F.when(live, histogram.bit(F.col("row"))))).alias(
            "histogram_bits"
        ),
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
    """Return how many rows a fold makes of ``good``: its distinct keys."""
    return good.select(*[F.col("row").getField(key) for key in keys]).distinct().count()


def has_exact_groups(kind: Any) -> bool:
    """Return whether a set of values of this type has as many as a query finds."""
    return kind in GROUPABLE or (isinstance(kind, str) and kind.startswith("decimal"))


def integer_keys(shape: TableShape, keys: tuple[str, ...]) -> list[str]:
    """Return the columns of a key that have whole numbers, in the key's order."""
    types = {column.name: column.type.iceberg for column in shape.columns}
    return [key for key in keys if types.get(key) in NUMBERS]


def bounded_columns(shape: TableShape, keys: tuple[str, ...]) -> list[str]:
    """Return the columns that have bounds."""
    # A text that isn't a key may be of any length, and a bound is part of a statement.
    kinds = PRUNABLE if keys else NUMBERS
    return [c.name for c in shape.columns if (c.name in keys or not keys) and c.type.iceberg in kinds]


def _promises(rows: DataFrame) -> list[str]:
    if FOUND_BROKEN not in rows.columns:
        return []
    kind = rows.schema[FOUND_BROKEN].dataType
    assert isinstance(kind, StructType)
    return kind.names
