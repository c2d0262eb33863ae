"""The settings of a table's upkeep, in its spec."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Upkeep(BaseModel):
    """When a table is rewritten, and how long its history is kept.

    ``target_file_mib``: the size that files are packed to; less in a table that has fewer than
    :data:`FILES_BEFORE_FULL_SIZE` of them. ``scan_cost``: a table whose scan is estimated to cost more than this times
    what it would cost rewritten is rewritten, once ``files`` have come; ``delete_share``: so is one with a larger share
    of its rows deleted, and so is every file.
    ``manifests``: once so many have come, they are rewritten as few. ``statistics_mib``: of a table that large the
    distinct values of its key and its layout's columns are counted, every ``statistics_every_hours``.
    ``sort``: whether rewritten files are sorted by the key. ``every_snapshot_minutes``: for how long every snapshot is
    kept, but no more than the ``most_snapshots`` newest, since every commit and every reader reads what the table's
    metadata says of each; ``snapshots``: so many are always kept; ``snapshots_days``: and one an hour for so long, by a
    tag.
    ``orphans_days``: files that no snapshot knows are deleted at this age; an age that no write and no reader reaches.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target_file_mib: int = Field(default=512, ge=8)
    scan_cost: float = Field(default=1.15, gt=1)
    files: int = Field(default=8, ge=2)
    delete_share: float = Field(default=0.1, gt=0, le=1)
    sort: Literal["none", "key"] = "none"
    manifests: int = Field(default=40, ge=2)
    statistics_mib: int = Field(default=64, ge=0)
    statistics_every_hours: int = Field(default=24, ge=1)
    every_snapshot_minutes: int = Field(default=60, ge=5)
    snapshots_days: int = Field(default=7, ge=1)
    most_snapshots: int = Field(default=500, ge=20)
    snapshots: int = Field(default=20, ge=2)
    orphans_days: int = Field(default=3, ge=1)
    orphans_every_hours: int = Field(default=24, ge=1)


def after_backlog(policy: Upkeep) -> Upkeep:
    """Return the upkeep of a table into which a backlog has just come.

    Readers come next, and nobody waits for a batch. So whatever a scan of the table pays for is rewritten.
    """
    return policy.model_copy(update={"delete_share": min(policy.delete_share, 0.01), "files": 2})


# How many snapshots the mirror's own tables keep at least.
OWN_SNAPSHOTS = 20


def own_upkeep(default: Upkeep) -> Upkeep:
    """Return the upkeep of the mirror's own tables.

    The newest commit of dead letters tells which there are, so that none comes twice, and must be among the snapshots
    that are kept: there are commits of upkeep after it, but never so many.
    """
    return default.model_copy(update={"snapshots": max(default.snapshots, OWN_SNAPSHOTS)})


class Alerts(BaseModel):
    """The limits beyond which a table is unhealthy, for people to look at.

    These are more files in a partition than ``partition_files``, more ``snapshots``, more metadata than
    ``metadata_mib``, or a compaction that has been due, and not done, for ``compaction_hours``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition_files: int = Field(default=500, ge=1)
    snapshots: int = Field(default=1000, ge=1)
    metadata_mib: float = Field(default=10_240, gt=0)
    compaction_hours: float = Field(default=24, gt=0)
