"""Work: the tasks themselves, through Iceberg's own actions. Killed at any moment, each leaves at most files that no
snapshot knows, which the removal of orphans deletes once they are old.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from pipelines.failpoints import failpoint
from pipelines.lake import file_deletion as deleting
from pipelines.lake.partitioning import sort_order
from pipelines.lake.properties import BY_FILE, BY_PARTITION, DELETE_GRANULARITY, PURGED, READING
from pipelines.lake.table import LakeTable, strings
from pipelines.maintenance.health import MIB, Health
from pipelines.maintenance.plan import HOUR, keeps_since, tag
from pipelines.specs.layout import Term
from pipelines.specs.upkeep import Upkeep

# So much is written anew at once of files that are as large as they shall be, so that a batch doesn't wait for long:
# what is left is the next compaction's. So much where a backlog has just come in, since nobody waits for the next batch
# yet. And so much is one group of Iceberg's action.
PIECE_BYTES, ARRIVAL_BYTES, GROUP_BYTES = 32 * MIB, 256 * MIB, 256 * MIB
MAIN = "main"
# The tag of the snapshot whose values were counted last.
COUNTED = "lakehouse-statistics"


@dataclass(frozen=True)
class Done:
    """What a task did: files and bytes (or snapshots) that went, and came in their place. ``left``: it was a piece of
    what is to be done, and there is more.
    """

    removed: int = 0
    added: int = 0
    bytes: int = 0
    left: bool = False

    def __add__(self, other: "Done") -> "Done":
        return Done(
            self.removed + other.removed, self.added + other.added, self.bytes + other.bytes, self.left or other.left
        )


def compact(
    session: SparkSession, table: LakeTable, policy: Upkeep, found: Health, order: Sequence[Term],
    extra: Mapping[str, object] | None = None, piece: int | None = PIECE_BYTES,
) -> Done:  # fmt: skip
    """Pack small files together, sorted by ``order``, and write files anew of which much is deleted, in one commit; of
    these, as far as they aren't small, about so many bytes as a ``piece`` has (None: all), and one file at least.
    ``extra``: options of Iceberg's action beyond these. A table that says nothing of how it is read in parts gets what
    new tables have first.

    Of which file a row was deleted Iceberg's action doesn't see where deletes are together. So where there are many of
    them they are laid out by file before it, and together again after it, in commits of their own.
    """
    if unsaid := READING.keys() - table.properties.keys():
        table.set_properties({name: READING[name] for name in unsaid})
        table.refresh()
    target = found.target_bytes(policy.target_file_mib * MIB)
    small = target // 2
    options = {
        "target-file-size-bytes": target, "min-file-size-bytes": small,
        # A file that is larger than it need be costs no reader anything; to split it costs much.
        "max-file-size-bytes": 2 * policy.target_file_mib * MIB,
        # Of a table with partitions those that need it, not each that has a second file.
        "min-input-files": max(2, policy.files // 2) if found.parts else 2,
        "max-file-group-size-bytes": GROUP_BYTES,
        # Nothing else writes meanwhile, and there are no equality deletes, which a file's age would matter to.
        "use-starting-sequence-number": "false",
        **(extra or {}),
    }  # fmt: skip
    together = table.deletes_together and table.java.currentSnapshot() is not None
    hidden = together and any(part.delete_share > policy.delete_share for part in found.parts or (found,))
    if hidden:
        lay_out_deletes(session, table)
    threshold = policy.delete_share
    if piece is not None and (hidden or not together):
        threshold = _threshold(table, policy.delete_share, piece, small)
    failpoint("before-compaction")
    action = _actions(session).rewriteDataFiles(table.java)
    if order:
        action = action.sort(sort_order(_jvm(session), table, order))
    result = _with(action, {**options, "delete-ratio-threshold": threshold}).execute()
    failpoint("after-compaction")
    table.java.refresh()
    removed = int(result.rewrittenDataFilesCount()) + int(result.removedDeleteFilesCount())
    removed += _drop_useless_deletes(session, table)
    left = threshold > policy.delete_share
    done = Done(removed, int(result.addedDataFilesCount()), int(result.rewrittenBytesCount()), left)
    if hidden:
        return done + lay_out_deletes(session, table)
    if together:
        done += _rewritten_deletes(session, table, {"min-input-files": options["min-input-files"]})
    return done


def _threshold(table: LakeTable, share: float, piece: int, small: int) -> float:
    """The share of deleted rows from which on a file is written anew: ``share``, or more where files with less would
    come to more bytes than a ``piece`` has with those that have the most. Of deletes that are by file. Files of fewer
    bytes than ``small`` are packed together whatever is deleted of them, and are no part of the piece: of a hot table's
    newest rows more is deleted than of any others, and large files' turn would never come.
    """
    if table.java.currentSnapshot() is None:
        return share
    found: list[tuple[float, int]] = []
    with closing(table.java.newScan().planFiles()) as tasks:
        for task in _each(tasks):
            file, deletes = task.file(), task.deletes()
            size = int(file.fileSizeInBytes())
            if size >= small and deletes.size():
                gone = sum(int(delete.recordCount()) for delete in deletes)
                found.append((min(1.0, gone / file.recordCount()), size))
    taken, threshold = 0, share
    for deleted, size in sorted(found, reverse=True):
        if deleted < share:
            return share
        if taken and taken + size > piece:
            return threshold
        taken, threshold = taken + size, deleted
    return share


def _drop_useless_deletes(session: SparkSession, table: LakeTable) -> int:
    """Take out the delete files that concern no data file any more: Iceberg leaves some, and counts their rows."""
    java, manifests = table.java, _jvm(session).org.apache.iceberg.ManifestFiles
    if table.java.currentSnapshot().deleteManifests(java.io()).isEmpty():
        return 0
    with closing(java.newScan().planFiles()) as tasks:
        used = {str(delete.location()) for task in _each(tasks) for delete in task.deletes()}
    update, count = java.newRowDelta(), 0
    for manifest in java.currentSnapshot().deleteManifests(java.io()):
        with closing(manifests.readDeleteManifest(manifest, java.io(), java.specs())) as deletes:
            for delete in _each(deletes):
                if str(delete.location()) not in used:
                    update, count = update.removeDeletes(delete.copy()), count + 1
    if count:
        update.commit()
    return count


def lay_out_deletes(session: SparkSession, table: LakeTable) -> Done:
    """From now on the positions of deleted rows are kept the other way, and those that there are from now on, too."""
    table.set_properties({DELETE_GRANULARITY: BY_FILE if table.deletes_together else BY_PARTITION})
    table.refresh()
    return _rewritten_deletes(session, table, {"rewrite-all": "true"})


def _rewritten_deletes(session: SparkSession, table: LakeTable, options: Mapping[str, object]) -> Done:
    """Write delete files anew as the table's granularity has it, without positions in data files that are gone."""
    result = _with(_actions(session).rewritePositionDeletes(table.java), options).execute()
    table.java.refresh()
    return Done(int(result.rewrittenDeleteFilesCount()), int(result.addedDeleteFilesCount()))


def rewrite_manifests(session: SparkSession, table: LakeTable) -> Done:
    """List the table's files in as few manifests as they fit into."""
    return _rewritten(_actions(session).rewriteManifests(table.java).execute())


def _rewritten(result: Any) -> Done:
    return Done(sum(1 for _ in _each(result.rewrittenManifests())), sum(1 for _ in _each(result.addedManifests())))


def count_values(session: SparkSession, table: LakeTable, policy: Upkeep, columns: Sequence[str]) -> Done:
    """Count distinct values, which query engines plan by. A tag keeps the snapshot that they are of, and so them, until
    they are counted again; it ends by itself where they aren't.
    """
    java, snapshot = table.java, table.snapshot_id
    manage = java.manageSnapshots()
    tagged = manage.replaceTag if COUNTED in java.refs() else manage.createTag
    tagged(COUNTED, snapshot).setMaxRefAgeMs(COUNTED, 2 * policy.statistics_every_hours * HOUR).commit()
    named = strings(_jvm(session), *columns)
    result = _actions(session).computeTableStats(java).snapshot(snapshot).columns(named).execute()
    file = result.statisticsFile()
    return Done(added=1, bytes=int(file.fileSizeInBytes())) if file is not None else Done()


def expire(session: SparkSession, table: LakeTable, policy: Upkeep, now: int) -> Done:
    """Give up old snapshots, and delete the files that only they had; an hour's first one is kept, by a tag."""
    java = table.java
    name = tag(list(java.refs()), now)
    if name is not None and java.currentSnapshot() is not None:
        age = policy.snapshots_days * 24 * HOUR
        java.manageSnapshots().createTag(name, java.currentSnapshot().snapshotId()).setMaxRefAgeMs(name, age).commit()
    before = table.snapshot_times()
    failpoint("before-expiry")
    deleting.expire(session, table, keeps_since(policy, table.untagged_times(), now), policy.snapshots)
    failpoint("after-expiry")
    return Done(removed=len(before) - len(table.snapshot_times()))


def purge(
    session: SparkSession, table: LakeTable, policy: Upkeep, found: Health, order: Sequence[Term],
    before_expiry: Callable[[], None], now: int,
) -> Done:  # fmt: skip
    """Leave nothing in any file that isn't in the table as it is now, neither rows nor, in manifests, the least and
    greatest values of files that are gone: write every file anew of which a row is deleted, list the files anew, and
    give up all other snapshots, with every tag. Readers of these fail. The table tells when it was done.
    """
    java = table.java
    if java.currentSnapshot() is None:
        return Done()
    done = compact(session, table, policy, found, order, {"delete-file-threshold": 1}, piece=None)
    for spec in list(java.specs().keySet()):
        java.refresh()
        _actions(session).rewriteManifests(java).specId(int(spec)).execute()
    table.refresh()
    before_expiry()
    table.refresh()
    others = {name: ref for name, ref in dict(java.refs()).items() if name not in (MAIN, table.branch)}
    manage = java.manageSnapshots()
    for name, ref in others.items():
        manage = manage.removeTag(name) if ref.isTag() else manage.removeBranch(name)
    if others:
        manage.commit()
    deleting.expire(session, table, now + HOUR, 1)
    table.set_properties({PURGED: str(now)})
    return done


def remove_orphans(session: SparkSession, table: LakeTable, policy: Upkeep, now: int) -> Done:
    """Delete files of the table's folder that no snapshot knows, once they are old."""
    older = now - policy.orphans_days * 24 * HOUR
    with deleting.may_delete(session, table) as java:
        result = _actions(session).deleteOrphanFiles(java).usePrefixListing(True).olderThan(older).execute()
    return Done(removed=sum(1 for _ in result.orphanFileLocations()))


def _actions(session: SparkSession) -> Any:
    return _jvm(session).org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)


def _each(iterable: Any) -> Iterator[Any]:
    """The items of a Java Iterable that isn't a Collection."""
    found = iterable.iterator()
    while found.hasNext():
        yield found.next()


def _jvm(session: SparkSession) -> Any:
    return session._jvm


def _with(action: Any, options: Mapping[str, object]) -> Any:
    for name, value in options.items():
        action = action.option(name, str(value))
    return action
