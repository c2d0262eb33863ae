"""Rekey: a table's key changes, or the way it is written (a column of it has another type or name), at one position
of the log.

Before that position a row's events come under its old key, after it under the new one, and on whatever partitions the
two fall. So what is older goes in first, from all partitions, under the old key; then the table is rekeyed; then the
rest. A change of the key waits for every other transaction of the table: whatever is older was committed before it, and
is in Kafka before the schema log tells of the change. See infra/decisions/021-key-changes.md.
"""

from pipelines.errors import PipelineError
from pipelines.evolve import follow as evolve
from pipelines.lake.table import LakeTable
from pipelines.sources.postgres.schema_log import TableVersions, Version


class KeyChanged(PipelineError):
    """The schema log tells of a change of the key, or of another table of the name, that hasn't been followed yet."""


def is_anothers(table: LakeTable | None, versions: TableVersions) -> bool:
    """Whether another table had the name before, and the lake's may still be that one's."""
    if versions.replaced_at is None or not versions.versions:
        return False
    return table is None or evolve.relation(table) not in (None, versions.versions[0].relation)


def has_news(versions: TableVersions, followed: TableVersions) -> bool:
    """Whether ``versions`` tell of anything to follow that ``followed`` didn't. A table that isn't in the lake yet
    can't be asked what it has followed.
    """
    return (versions.key_changes, versions.replaced_at) != (followed.key_changes, followed.replaced_at)


def due(table: LakeTable | None, versions: TableVersions) -> list[Version]:
    """The changes of the key that the table is yet to follow, oldest first."""
    if not versions.key_changes:
        return []
    has = evolve.applied(table, versions).version if table is not None else None
    return [change for change in versions.key_changes if has is None or change.lsn > has.lsn]
