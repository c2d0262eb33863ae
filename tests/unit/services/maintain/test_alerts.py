"""What is an alert, at and beyond each limit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.specs.upkeep import Alerts
from services.maintain.alerts import Condition, alerts

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
LIMITS = Alerts(partition_files=10, snapshots=20, metadata_mib=1, compaction_hours=24)
AT_EVERY_LIMIT = Condition(
    partition_files=10, snapshots=20, metadata_bytes=2**20, scan_cost=1.3, compaction_due="half of it is deleted",
    compacted=NOW - timedelta(hours=24), begun=NOW - timedelta(days=9),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"partition_files": 11}, ["11 files in a partition, more than 10"]),
        ({"snapshots": 1021}, ["1,021 snapshots, more than 20"]),
        ({"metadata_bytes": 3 * 2**20}, ["3 MiB of metadata, more than 1"]),
        ({"compacted": NOW - timedelta(hours=30)}, ["not compacted for 30 hours, though half of it is deleted"]),
        (
            {"compacted": None, "begun": NOW - timedelta(hours=48)},
            ["not compacted for 48 hours, or ever as far as its snapshots tell, though half of it is deleted"],
        ),
        ({"compacted": NOW - timedelta(days=9), "compaction_due": None}, []),
        ({"compacted": None, "begun": None}, []),
    ],
    ids=["at every limit", "files", "snapshots", "metadata", "compaction", "never compacted", "nothing due", "empty"],
)
def test_alerts(change: dict[str, object], said: list[str]) -> None:
    assert alerts(LIMITS, replace(AT_EVERY_LIMIT, **change), NOW) == said  # type: ignore[arg-type]
