"""Facts: what a table's change rows amount to, and which of the table's rows they can touch."""

from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.admit import BROKEN, FOUND_BROKEN, TRUNCATE
from pipelines.fold import CREATES
from pipelines.iceberg import LakeTable
from pipelines.inherit import any_unavailable
from pipelines.part import Part
from pipelines.sieve import Slots
from pipelines.sources.postgres.envelope import SHAPES, TableShape
from pipelines.sources.postgres.types import printed

PRUNABLE = ("int", "long", "string")
NUMBERS = ("int", "long")
LISTABLE = (*PRUNABLE, "uuid")
# Of whose values a set makes the same groups as a query does (not so of 0.0 and -0.0), and which Python can hold all of
# (not so of dates after the year 9999).
SETTLED = (*LISTABLE, "boolean")
# An int's and a long's.
INTEGERS = [(-(1 << bits), (1 << bits) - 1) for bits in (31, 63)]
# More keys than these cost the planner more than the files that they are not in would cost the merge.
MOST_LISTED = 200


def batch_facts(rows: DataFrame, shape: TableShape, keys: tuple[str, ...], few: bool, slots: Slots | None) -> Row:
    """Counts, times and bounds of decoded rows, in one pass: bounds of the key, or without one of what is removed.
    ``moved``: the newest log position of a change of a row's key that may have left out a value. ``distinct``: how many
    keys there are changes of, where rows are ``few``, and ``touched``: which, where these are few as well; null if keys
    can't be listed. ``taken``: those of the ``slots`` that changed keys have. ``broken``: promise of the contract to
    how many rows broke it.
    """
    return rows.agg(*aggregates(rows, shape, keys, few, slots)).collect()[0]


def aggregates(
    rows: DataFrame, shape: TableShape, keys: tuple[str, ...], few: bool, slots: Slots | None
) -> list[Column]:
    """What :func:`batch_facts` asks of ``rows``."""
    return _aggregates(rows.sparkSession._jvm, shape, keys, few, slots, tuple(_promises(rows)))


@lru_cache(maxsize=SHAPES)
def _aggregates(
    _jvm: Any, shape: TableShape, keys: tuple[str, ...], few: bool, slots: Slots | None, promises: tuple[str, ...]
) -> list[Column]:
    """Made once: two hundred calls into the JVM (``_jvm``)."""
    good = F.col("problem").isNull()
    truncates = good & (F.col("op") == TRUNCATE)
    live = good & (F.col("op") != TRUNCATE)
    lacking = any_unavailable(shape)
    halves = live & (F.col("leaving") | (F.col("op").isin(*CREATES) & F.col("old_key").isNotNull() & lacking))
    image = "row" if keys else "before"
    enforced = good | F.col("problem").startswith(BROKEN)
    prunable = _prunable(shape, keys)
    listed = few and keys and all(_settled(c.type.iceberg) for c in shape.columns if c.name in keys)
    key = F.struct(*[F.col("row").getField(name).alias(name) for name in keys])
    changed = F.collect_set(F.when(live, key)) if listed else F.lit(None).cast("array<int>")
    return [
        F.count_if(~good).alias("dead"),
        F.count_if(live).alias("live"),
        F.count_if(live & F.col("op").isin("u", "d")).alias("removals"),
        F.count_if(live & F.col("replayed")).alias("replayed"),
        F.count_if(live & lacking).alias("incomplete"),
        F.max(F.when(halves, F.col("lsn")) if shape.toastable else F.lit(None)).cast("long").alias("moved"),
        F.count_if(truncates).alias("truncates"),
        F.max(F.when(truncates, F.col("lsn"))).alias("truncated"),
        F.min(F.unix_micros("committed_at") / 1e6).alias("oldest"),
        (F.size(changed) if listed else F.lit(None)).alias("distinct"),
        F.when(F.size(changed) <= MOST_LISTED, changed).alias("touched"),
        (F.lit(None) if slots is None else F.collect_set(F.when(live, slots.slot(F.col("row"))))).alias("taken"),
        F.struct(
            F.lit(0).alias(""),
            *[F.count_if(enforced & F.col(FOUND_BROKEN).getField(name)).alias(name) for name in promises],
        ).alias("broken"),
        F.struct(
            F.lit(0).alias(""),
            *[F.min(F.when(live, F.col(image).getField(name))).alias(f"low {name}") for name in prunable],
            *[F.max(F.when(live, F.col(image).getField(name))).alias(f"high {name}") for name in prunable],
        ).alias("bounds"),
    ]


def folded_count(good: DataFrame, keys: tuple[str, ...]) -> int:
    """How many rows :func:`pipelines.fold.fold` makes of ``good``."""
    return good.select(*[F.col("row").getField(key) for key in keys]).distinct().count()


def bounds(facts: Row, shape: TableShape, keys: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """What :func:`reach` tells, moved :func:`apart`."""
    return {name: apart(*pair) for name, pair in reach(facts, shape, keys).items()}


def reach(facts: Row, shape: TableShape, keys: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """Column to least and greatest value, of the key, or without one of the rows that are removed (where some may be
    null as well). Never for uuid: Iceberg 1.11 orders its text wrongly when it prunes.
    """
    found = facts.bounds.asDict()
    pairs = {name: (found[f"low {name}"], found[f"high {name}"]) for name in _prunable(shape, keys)}
    return {name: pair for name, pair in pairs.items() if pair[0] is not None}


def apart(low: Any, high: Any) -> tuple[Any, Any]:
    """Whole numbers moved apart to multiples of a power of two, an eighth to a quarter of their distance, so that they
    are the same for many batches: Spark makes code of them, which it keeps.
    """
    if not isinstance(low, int):
        return low, high
    step = 1 << max(0, (high - low).bit_length() - 3)
    least, most = next(limits for limits in INTEGERS if limits[0] <= low and high <= limits[1])
    return max(least, low // step * step), min(most, (high // step + 1) * step - 1)


def key_among(facts: Row, shape: TableShape, keys: tuple[str, ...]) -> tuple[str, tuple[Any, ...]] | None:
    """The first key column whose values can be listed, and all its values; None: they aren't listed."""
    types = {column.name: column.type.iceberg for column in shape.columns}
    key = next((name for name in keys if types[name] in LISTABLE), None)
    if key is None or not facts.touched:
        return None
    return key, tuple({touched[key]: None for touched in facts.touched})


def slots(part: Part, shape: TableShape, keys: tuple[str, ...], table: LakeTable | None) -> Slots | None:
    """By what a table's rows are sifted, where the facts are asked which slots the changes have. None: by nothing,
    because they can be listed or there is no table yet, or they are so many that this is asked of their keys (see
    :mod:`pipelines.keyed`).
    """
    if table is None or part.many or part.seen.rows <= MOST_LISTED:
        return None
    return sifting(shape, keys, table, part.seen.rows)


def sifting(shape: TableShape, keys: tuple[str, ...], table: LakeTable, changed: int) -> Slots | None:
    """By what a table's rows are sifted for so many changed keys; None: none of the key's columns has the same hash in
    both.
    """
    types, has = {column.name: column.type.iceberg for column in shape.columns}, table.column_types
    same = [key for key in keys if _settled(types[key]) and has.get(key) == printed(types[key])]
    return Slots.of(same, changed) if same else None


def broken(facts: Row) -> dict[str, int]:
    """Promise of the contract to how many rows broke it, where some did."""
    return {name: count for name, count in facts.broken.asDict().items() if count}


def _promises(rows: DataFrame) -> list[str]:
    if FOUND_BROKEN not in rows.columns:
        return []
    kind = rows.schema[FOUND_BROKEN].dataType
    assert isinstance(kind, StructType)
    return kind.names


def _settled(kind: Any) -> bool:
    return kind in SETTLED or (isinstance(kind, str) and kind.startswith("decimal"))


def _prunable(shape: TableShape, keys: tuple[str, ...]) -> list[str]:
    # A text that isn't a key may be of any length, and a bound is part of a statement.
    kinds = PRUNABLE if keys else NUMBERS
    return [c.name for c in shape.columns if (c.name in keys or not keys) and c.type.iceberg in kinds]
