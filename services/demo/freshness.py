"""How long a change took from its commit in the source until it was visible in the lake, measured in the lake itself.

A row carries the Kafka position of its last change and the source's commit time; the table's ledger says which commit
brought that position, and when. Rows that were changed again since, or deleted, are not seen, so the figure is that of
the changes which are still visible.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import quantiles

from pyiceberg.table import Table

from pipelines.ledger.entries import OFFSETS


@dataclass(frozen=True)
class Freshness:
    """Seconds from source commit to visible, over ``rows`` rows."""

    rows: int
    p50: float
    p95: float


def freshness(tables: list[Table], since: datetime, until: datetime) -> Freshness | None:
    """Over the rows committed in the source between ``since`` and ``until``; None when there are none."""
    ages = [age for _, age in measured(tables, since, until)]
    if len(ages) < 2:
        return None
    cuts = quantiles(ages, n=20, method="inclusive")
    return Freshness(len(ages), cuts[9], cuts[18])


def measured(tables: list[Table], since: datetime, until: datetime) -> list[tuple[datetime, float]]:
    """Return when each row was committed in the source, between these two, and how many seconds later it was seen."""
    return [each for table in tables for each in _ages(table, since, until)]


def _ages(table: Table, since: datetime, until: datetime) -> Iterator[tuple[datetime, float]]:
    commits = _commits(table)
    columns = ("_kafka_partition", "_kafka_offset", "_committed_at")
    recent = table.scan(f"_committed_at >= '{since.isoformat()}'", selected_fields=columns).to_arrow()
    for row in recent.to_pylist():
        committed = row["_committed_at"].astimezone(UTC)
        if since <= committed < until and (visible := _visible(commits, row)) is not None:
            yield committed, visible - committed.timestamp()


def _commits(table: Table) -> dict[int, tuple[list[int], list[float]]]:
    """Return partition to the first offset of each commit, ascending, and the commit's time in seconds."""
    spans: dict[int, list[tuple[int, float]]] = {}
    for snapshot in table.snapshots():
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        for partition, (first, _) in json.loads(summary.get(OFFSETS, "{}")).items():
            spans.setdefault(int(partition), []).append((first, snapshot.timestamp_ms / 1000))
    return {p: ([s[0] for s in sorted(found)], [s[1] for s in sorted(found)]) for p, found in spans.items()}


def _visible(commits: dict[int, tuple[list[int], list[float]]], row: dict[str, int]) -> float | None:
    starts, times = commits.get(row["_kafka_partition"], ([], []))
    index = bisect_right(starts, row["_kafka_offset"]) - 1
    return times[index] if index >= 0 else None
