"""What a table's metadata and a sample of its rows tell of how it is changed, and what a filter must read."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from statistics import mean, median
from typing import Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual
from pyiceberg.table import Table

from pipelines.lake.properties import KEY_COLUMNS
from services.stack.errors import CannotVerify
from services.stack.lake import lineage

BATCHES, SAMPLE, TRIED = 100, 100_000, 5


@dataclass(frozen=True)
class Filter:
    """A column that readers filter by.

    ``read``: the share of the table's bytes that a filter for one value of it must read as the table lies, the mean
    over some values. ``distinct``: values among ``SAMPLE`` rows; ``hours``: from the column's least to its greatest
    value, where it is a time.
    """

    column: str
    distinct: int
    read: float
    hours: float | None = None


@dataclass(frozen=True)
class Observation:
    """A table's size, and what its newest commits changed.

    Of its newest ``batches`` commits with changed rows the median of the rows and of the share of its files in which
    there were some. ``spread``: the share of as many files in which these rows would be if the table were sorted by
    ``key``; None where the key's values can't be told in numbers.
    """

    rows: int
    bytes: int
    files: int
    key: tuple[str, ...]
    batches: int = 0
    changes: float = 0
    touched: float | None = None
    spread: float | None = None
    filters: tuple[Filter, ...] = field(default_factory=tuple)


def observe(table: Table, where: Iterable[str]) -> Observation:
    """Reads manifests, and the filters' and key's columns of some rows. Raises CannotVerify for an unknown column."""
    unknown = [column for column in where if column not in table.schema().column_names]
    if unknown:
        known = ", ".join(name for name in table.schema().column_names if not name.startswith("_"))
        raise CannotVerify(f"{'.'.join(table.name()[-2:])} has no column {', '.join(unknown)}. Its columns: {known}.")
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    key = tuple(json.loads(table.properties.get(KEY_COLUMNS, "[]")))
    files = int(summary.get("total-data-files", 0))
    found = Observation(int(summary.get("total-records", 0)), int(summary.get("total-files-size", 0)), files, key)
    if not files:
        return found
    changes, touched = _batches(table)
    spread = _spread(table, key[0], round(median(changes)), files) if changes and len(key) == 1 else None
    return Observation(
        found.rows, found.bytes, files, key, len(changes), median(changes or [0]),
        median(touched) if touched else None, spread, tuple(_filter(table, column) for column in where),
    )  # fmt: skip


def _batches(table: Table) -> tuple[list[int], list[float]]:
    """Return how many rows each commit changed, and the share of the files before it that got deletes."""
    changes, shares = [], []
    for snapshot, _ in zip(lineage(table), range(BATCHES), strict=False):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        deleted, added = int(summary.get("added-position-deletes", 0)), int(summary.get("added-data-files", 0))
        before = int(summary.get("total-data-files", 0)) - added + int(summary.get("deleted-data-files", 0))
        if deleted and before and "lakehouse.counts" in summary:
            changes.append(deleted)
            shares.append(min(1.0, int(summary.get("added-delete-files", 0)) / before))
    return changes, shares


def _spread(table: Table, key: str, changes: int, files: int) -> float | None:
    """Return in how many of ``files`` stretches of the key the rows are that were changed last, as a share."""
    low, high = _bounds(table, key)
    if not isinstance(low, int) or not isinstance(high, int) or high == low:
        return None
    newest = _bounds(table, "_lsn")[1] or 0
    rows: list[dict[str, Any]] = []
    since = newest
    while since > 0 and len(rows) < changes:
        since -= max(1, newest - since) * 3
        updated = And(GreaterThanOrEqual(term="_lsn", value=max(0, since)), EqualTo(term="_op", value="u"))
        rows = table.scan(updated, selected_fields=(key, "_lsn"), limit=SAMPLE).to_arrow().sort_by("_lsn").to_pylist()
    keys = [row[key] for row in rows[-changes:]]
    return len({(value - low) * files // (high - low + 1) for value in keys}) / files if keys else None


def _filter(table: Table, column: str) -> Filter:
    values = list(dict.fromkeys(table.scan(selected_fields=(column,), limit=SAMPLE).to_arrow()[column].to_pylist()))
    values = [value for value in values if value is not None]
    tried = values[:: max(1, len(values) // TRIED)][:TRIED]
    total = _bytes(table, AlwaysTrue())
    read = [_bytes(table, EqualTo(term=column, value=value)) / total for value in tried]
    low, high = _bounds(table, column)
    hours = (high - low).total_seconds() / 3600 if isinstance(low, date | datetime) else None
    return Filter(column, len(values), mean(read or [1.0]), hours)


def _bytes(table: Table, condition: BooleanExpression) -> int:
    """Return the size of the files that a scan with this condition reads."""
    return sum(int(task.file.file_size_in_bytes) for task in table.scan(condition).plan_files())


def _bounds(table: Table, column: str) -> tuple[Any, Any]:
    """Return the least and the greatest value, by the statistics of the files; (None, None) without any."""
    metrics = [entry[column] for entry in table.inspect.data_files()["readable_metrics"].to_pylist()]
    lows = [entry["lower_bound"] for entry in metrics if entry["lower_bound"] is not None]
    highs = [entry["upper_bound"] for entry in metrics if entry["upper_bound"] is not None]
    return min(lows, default=None), max(highs, default=None)
