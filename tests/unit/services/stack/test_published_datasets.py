"""How far what a role is shown is behind its table."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from pipelines.lake.properties import PUBLISHED_ROLE, PUBLISHED_SNAPSHOT
from services.stack.published_datasets import dataset_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Table:
    """What of PyIceberg's table is looked at. ``ages``: of its snapshots, oldest first, in seconds."""

    ages: list[float]
    said: dict[int, dict[str, str]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=lambda: {PUBLISHED_ROLE: "restricted"})

    def name(self) -> tuple[str, ...]:
        return ("restricted_shop", "orders")

    def current_snapshot(self) -> Snapshot | None:
        return self.snapshot_by_id(len(self.ages))

    def snapshot_by_id(self, number: int) -> Snapshot | None:
        if not 1 <= number <= len(self.ages):
            return None
        at = NOW - timedelta(seconds=self.ages[number - 1])
        summary = Summary(Operation.APPEND, **self.said.get(number, {}))
        return Snapshot(snapshot_id=number, parent_snapshot_id=number - 1 or None, manifest_list="",
                        timestamp_ms=round(at.timestamp() * 1000), summary=summary)  # fmt: skip


@pytest.mark.parametrize(
    ("of", "ages", "behind"),
    [
        ("3", [90, 60, 30], 0),
        ("2", [90, 60, 30], 30),
        ("1", [90, 60, 30], 60),
        # Its snapshot is expired: at least since the oldest that is kept.
        ("0", [90, 60, 30], 90),
    ],
)
def test_it_is_behind_since_the_first_commit_that_it_lacks(of: str, ages: list[float], behind: float) -> None:
    # The newest commit only rewrote its files.
    dataset: Any = Table([40, 10], {1: {PUBLISHED_SNAPSHOT: of}})
    table: Any = Table(ages)
    found = dataset_state(dataset, table, NOW)
    assert (found.role, found.table, found.snapshot_id) == ("restricted", "lake.restricted_shop.orders", of)
    assert found.behind_seconds == behind
