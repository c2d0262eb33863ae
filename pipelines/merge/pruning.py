"""Prune a table's rows to those that a batch's changes can concern.

The condition is of the table's columns alone: by it files, row groups and rows are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.changes.key_filter import KeyFilter
from pipelines.changes.key_histogram import KeyHistogram
from pipelines.changes.stats import LISTABLE, BatchStats, StatsRequest, has_exact_groups
from pipelines.lake.table import LakeTable
from pipelines.limits import Limits
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.sql import literal, quote

# An int's and a long's.
INTEGERS = [(-(1 << bits), (1 << bits) - 1) for bits in (31, 63)]


@dataclass(frozen=True)
class Pruning:
    """Conditions that are true of each row which a change concerns.

    ``bounds``: column to the least and greatest value among the changes. ``gap``: a column, and two values between
    which no change has any. ``listed``: a column and all its values among the changes; only where they are few.
    ``key_filter``: by which rows are left out before they are shuffled. By all but the last one files are skipped.
    """

    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    gap: tuple[str, int, int] | None = None
    listed: tuple[str, tuple[Any, ...]] | None = None
    key_filter: KeyFilter | None = None

    def conditions(self, row: str) -> list[str]:
        """Return the conditions in SQL. With a ``key_filter`` they have its parameter."""
        found = [
            f"{row}.{quote(name)} >= {_literal(low)} AND {row}.{quote(name)} <= {_literal(high)}"
            for name, (low, high) in self.bounds.items()
        ]
        if self.gap is not None:
            name, before, after = self.gap
            found.append(f"({row}.{quote(name)} <= {before:d} OR {row}.{quote(name)} >= {after:d})")
        if self.listed is not None:
            name, values = self.listed
            # A text could be a uuid in the table, which Iceberg 1.11 prunes wrongly: concat keeps the list from being
            # pushed.
            column = f"{row}.{quote(name)}"
            column = f"concat({column}, '')" if isinstance(values[0], str) else column
            found.append(f"{column} IN ({', '.join(_literal(value) for value in values)})")
        if self.key_filter is not None:
            found.append(self.key_filter.condition(row))
        return found


def prune_by_keys(
    stats: BatchStats, shape: TableShape, keys: tuple[str, ...], histogram: KeyHistogram | None
) -> Pruning:
    """Return the conditions on a table with a key, by what ``stats`` tell of the changed keys.

    ``histogram``: the one that was requested of the stats.
    """
    listed = listed_keys(stats, shape, keys)
    gap = None
    # What is listed needs no gap.
    if histogram is not None and listed is None and stats.histogram_bits is not None:
        found = histogram.widest_gap(stats.histogram_bits)
        gap = (histogram.key, *found) if found else None
    return Pruning(widened_bounds(stats), gap, listed)


def widened_bounds(stats: BatchStats) -> dict[str, tuple[Any, Any]]:
    """Return the bounds of a batch, widened: they are the same for many batches then."""
    return {name: widen_bounds(*pair) for name, pair in stats.bounds.items()}


def widen_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Move whole numbers apart to multiples of a power of two, an eighth to a quarter of their distance.

    So they are the same for many batches: Spark makes code of them, which it keeps.
    """
    if not isinstance(low, int):
        return low, high
    step = 1 << max(0, (high - low).bit_length() - 3)
    least, most = next(limits for limits in INTEGERS if limits[0] <= low and high <= limits[1])
    return max(least, low // step * step), min(most, (high // step + 1) * step - 1)


def listed_keys(stats: BatchStats, shape: TableShape, keys: tuple[str, ...]) -> tuple[str, tuple[Any, ...]] | None:
    """Return the first key column whose values can be listed, and all its values; None: they aren't listed."""
    types = {column.name: column.type.iceberg for column in shape.columns}
    key = next((name for name in keys if types[name] in LISTABLE), None)
    if key is None or not stats.touched:
        return None
    return key, tuple({touched[key]: None for touched in stats.touched})


def stats_request(
    rows: int,
    shape: TableShape,
    keys: tuple[str, ...],
    table: LakeTable | None,
    histogram: KeyHistogram | None,
    limits: Limits,
) -> StatsRequest:
    """Return which stats to compute of so many ``rows``, so that it is known what of the ``table`` they concern.

    A key filter isn't requested where keys can be listed or there is no table yet, or where there are so many that the
    filter is made of their keys (see :mod:`pipelines.merge.keyed`).
    """
    few = limits.is_few(rows)
    if table is None or rows <= limits.listed_keys:
        return StatsRequest(few, limits.listed_keys)
    key_filter = None if limits.is_many(rows) else key_filter_for(shape, keys, table, rows, limits)
    return StatsRequest(few, limits.listed_keys, key_filter, histogram)


def key_filter_for(
    shape: TableShape,
    keys: tuple[str, ...],
    table: LakeTable,
    changed: int,
    limits: Limits,
) -> KeyFilter | None:
    """Return the filter of a table's rows for so many changed keys.

    None: no column of the key has the same hash in both.
    """
    types, has = {column.name: column.type.iceberg for column in shape.columns}, table.column_types
    same = [key for key in keys if has_exact_groups(types[key]) and has.get(key) == printed(types[key])]
    return KeyFilter.of(same, changed, limits.filter_buckets) if same else None


def _literal(value: Any) -> str:
    return literal(value) if isinstance(value, str) else f"{value:d}"
