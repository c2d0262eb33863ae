"""Pruning: which of a table's rows a part's changes can concern, as a condition of the table's columns alone, by which
files, row groups and rows are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Row

from pipelines.changes.key_filter import KeyFilter
from pipelines.changes.key_histogram import KeyHistogram
from pipelines.changes.stats import LISTABLE, StatsRequest, bounded_columns, can_be_listed, has_exact_groups
from pipelines.changes.topic_batch import TopicBatch
from pipelines.lake.table import LakeTable
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.sql import literal, quote

# An int's and a long's.
INTEGERS = [(-(1 << bits), (1 << bits) - 1) for bits in (31, 63)]


@dataclass(frozen=True)
class Pruning:
    """``bounds``: column to the least and greatest value among the changes. ``gap``: a column, and two values between
    which no change has any. ``among``: a column and all its values among the changes; only where they are few.
    ``slots``: by which rows are left out before they are shuffled. By all but the last one files are skipped.
    """

    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    gap: tuple[str, int, int] | None = None
    among: tuple[str, tuple[Any, ...]] | None = None
    slots: KeyFilter | None = None

    def conditions(self, row: str) -> list[str]:
        """In SQL, all true of each row that a change concerns. With ``slots`` they have its parameter."""
        return [*self._bounds(row), *self._gap(row), *self._among(row), *self._passes(row)]

    def _bounds(self, row: str) -> list[str]:
        return [
            f"{row}.{quote(name)} >= {_literal(low)} AND {row}.{quote(name)} <= {_literal(high)}"
            for name, (low, high) in self.bounds.items()
        ]

    def _gap(self, row: str) -> list[str]:
        if self.gap is None:
            return []
        name, before, after = self.gap
        return [f"({row}.{quote(name)} <= {before:d} OR {row}.{quote(name)} >= {after:d})"]

    def _among(self, row: str) -> list[str]:
        if self.among is None:
            return []
        name, values = self.among
        # A text could be a uuid in the table, which Iceberg 1.11 prunes wrongly: concat keeps the list from being
        # pushed.
        column = f"{row}.{quote(name)}"
        column = f"concat({column}, '')" if isinstance(values[0], str) else column
        return [f"{column} IN ({', '.join(_literal(value) for value in values)})"]

    def _passes(self, row: str) -> list[str]:
        return [self.slots.passes(row)] if self.slots is not None else []


def prune_by_keys(facts: Row, shape: TableShape, keys: tuple[str, ...], ruler: KeyHistogram | None) -> Pruning:
    """What ``facts`` tell of where the changed keys are, of a table with a key. ``ruler``: that was asked of them."""
    among = key_among(facts, shape, keys)
    # What is listed needs no gap.
    gap = ruler.gap(facts.marks) if ruler is not None and among is None and facts.marks is not None else None
    return Pruning(widened_bounds(facts, shape, keys), (ruler.key, *gap) if ruler is not None and gap else None, among)


def widened_bounds(facts: Row, shape: TableShape, keys: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """What :func:`reach` tells, moved :func:`apart`."""
    return {name: widen_bounds(*pair) for name, pair in key_bounds(facts, shape, keys).items()}


def key_bounds(facts: Row, shape: TableShape, keys: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """Column to least and greatest value, of the key, or without one of the rows that are removed (where some may be
    null as well). Never for uuid: Iceberg 1.11 orders its text wrongly when it prunes.
    """
    found = facts.bounds.asDict()
    pairs = {name: (found[f"low {name}"], found[f"high {name}"]) for name in bounded_columns(shape, keys)}
    return {name: pair for name, pair in pairs.items() if pair[0] is not None}


def widen_bounds(low: Any, high: Any) -> tuple[Any, Any]:
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


def stats_request(
    part: TopicBatch, shape: TableShape, keys: tuple[str, ...], table: LakeTable | None, ruler: KeyHistogram | None
) -> StatsRequest:
    """What a part's rows are asked for, so that what of the ``table`` they concern is known. Slots aren't where they
    can be listed or there is no table yet, or they are so many that this is asked of their keys (see
    :mod:`pipelines.merge.keyed`).
    """
    if table is None or can_be_listed(part.seen.rows):
        return StatsRequest(part.few)
    return StatsRequest(part.few, None if part.many else key_filter_for(shape, keys, table, part.seen.rows), ruler)


def key_filter_for(shape: TableShape, keys: tuple[str, ...], table: LakeTable, changed: int) -> KeyFilter | None:
    """By what a table's rows are sifted for so many changed keys; None: none of the key's columns has the same hash in
    both.
    """
    types, has = {column.name: column.type.iceberg for column in shape.columns}, table.column_types
    same = [key for key in keys if has_exact_groups(types[key]) and has.get(key) == printed(types[key])]
    return KeyFilter.of(same, changed) if same else None


def _literal(value: Any) -> str:
    return literal(value) if isinstance(value, str) else f"{value:d}"
