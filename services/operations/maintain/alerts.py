"""How healthy a table is, and what of it is an alert. Reads the metadata of every snapshot, and no data."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from pipelines.maintenance.health import MIB
from pipelines.maintenance.plan import COMPACT
from pipelines.specs.upkeep import Alerts
from services.operations.maintain.needs import Need

FILE_COUNTS = ("file_count", "position_delete_file_count", "equality_delete_file_count")


@dataclass(frozen=True)
class Condition:
    """How healthy a table is.

    ``partition_files``: data and delete files of the partition that has most; ``metadata_bytes``: manifests of all
    snapshots; ``scan_cost``: see :class:`Need`; ``compaction_due``: why it should be rewritten, if it should;
    ``compacted``: when it was last, as far as its snapshots tell; ``begun``: when the oldest of these was made.
    """

    partition_files: int
    snapshots: int
    metadata_bytes: int
    scan_cost: float
    compaction_due: str | None
    compacted: datetime | None
    begun: datetime | None


def condition(table: Table, need: Need, partitions: list[dict[str, Any]]) -> Condition:
    """Return how healthy a table is, and what it needs. ``partitions``: of :func:`partitions_of`."""
    manifests = table.inspect.all_manifests().select(["path", "length"]).to_pylist()
    snapshots = table.snapshots()
    rewritten = [s.timestamp_ms for s in snapshots if s.summary and s.summary.operation is Operation.REPLACE]
    return Condition(
        partition_files=max((sum(row[name] for name in FILE_COUNTS) for row in partitions), default=0),
        snapshots=len(snapshots),
        metadata_bytes=sum({row["path"]: row["length"] for row in manifests}.values()),
        scan_cost=need.scan_cost,
        compaction_due=next((due.why for due in need.due if due.task == COMPACT), None),
        compacted=_moment(max(rewritten, default=None)),
        begun=_moment(min((s.timestamp_ms for s in snapshots), default=None)),
    )


def alerts(limits: Alerts, found: Condition, now: datetime) -> list[str]:
    """Return what is beyond ``limits``, each in a sentence."""
    said = []
    if found.partition_files > limits.partition_files:
        said.append(f"{found.partition_files:,} files in a partition, more than {limits.partition_files:,}")
    if found.snapshots > limits.snapshots:
        said.append(f"{found.snapshots:,} snapshots, more than {limits.snapshots:,}")
    if found.metadata_bytes > limits.metadata_mib * MIB:
        said.append(f"{found.metadata_bytes // MIB:,} MiB of metadata, more than {limits.metadata_mib:,g}")
    since = found.compacted or found.begun
    if found.compaction_due and since and (hours := (now - since).total_seconds() / 3600) > limits.compaction_hours:
        never = "" if found.compacted else ", or ever as far as its snapshots tell"
        said.append(f"not compacted for {hours:.0f} hours{never}, though {found.compaction_due}")
    return said


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
