"""Do the tasks of upkeep, through Iceberg's own actions.

Killed at any moment, each leaves at most files that no snapshot knows, which the removal of orphans deletes once they
are old.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pipelines.failpoints import failpoint
from pipelines.lake import file_deletion, packing
from pipelines.lake.actions import RewriteResult, TableActions
from pipelines.lake.properties import BY_FILE, BY_PARTITION, DELETE_GRANULARITY, PURGED, READING
from pipelines.lake.refs import put_tag, remove_other_refs
from pipelines.lake.table import LakeTable
from pipelines.maintenance.health import MIB, Health
from pipelines.maintenance.plan import HOUR, keeps_since, tag
from pipelines.specs.layout import Term
from pipelines.specs.upkeep import Upkeep

# So much is written anew at once of files that are as large as they shall be, so that a batch doesn't wait for long:
# what is left is the next compaction's. So much where a backlog has just come in, since nobody waits for the next batch
# yet. And so much is one group of Iceberg's action.
PIECE_BYTES, BACKLOG_BYTES, GROUP_BYTES = 32 * MIB, 256 * MIB, 256 * MIB
# Files of up to so many bytes are packed in this process, without tasks of Spark's.
PACKED_BYTES = 32 * MIB
# The tag of the snapshot whose values were counted last.
COUNTED = "lakehouse-statistics"


@dataclass(frozen=True)
class TaskResult:
    """The result of a task: files and bytes (or snapshots) that were removed, and added in their place.

    ``left``: it was a piece of what is to be done, and there is more.
    """

    removed: int = 0
    added: int = 0
    bytes: int = 0
    left: bool = False

    def __add__(self, other: "TaskResult") -> "TaskResult":
        return TaskResult(
            self.removed + other.removed, self.added + other.added, self.bytes + other.bytes, self.left or other.left
        )


def compact(
    session: SparkSession, table: LakeTable, policy: Upkeep, found: Health, order: Sequence[Term],
    extra: Mapping[str, object] | None = None, piece: int | None = PIECE_BYTES,
) -> TaskResult:  # fmt: skip
    """Pack small files together, and rewrite files of which much is deleted, sorted by ``order``, in one commit.

    Of the files that aren't small, about so many bytes are rewritten as a ``piece`` has (None: all), and one file at
    least. ``extra``: options of Iceberg's action beyond these. A table that says nothing of how it is read in parts
    gets what new tables have first.

    Where deletes are together, Iceberg's action doesn't see of which file a row was deleted. So where there are many of
    them they are laid out by file before it, and together again after it, in commits of their own.
    """
    if unsaid := READING.keys() - table.properties.keys():
        table.set_properties({name: READING[name] for name in unsaid})
        table.refresh()
    target = found.target_bytes(policy.target_file_mib * MIB)
    small = target // 2
    # Of a table with partitions those that need it are packed, not each that has a second file.
    fewest = max(2, policy.files // 2) if found.partitions else 2
    options = {
        "target-file-size-bytes": target, "min-file-size-bytes": small,
        # A file that is larger than it need be costs no reader anything; to split it costs much.
        "max-file-size-bytes": 2 * policy.target_file_mib * MIB,
        "min-input-files": fewest,
        "max-file-group-size-bytes": GROUP_BYTES,
        # Nothing else writes meanwhile, and there are no equality deletes, which a file's age would matter to.
        "use-starting-sequence-number": "false",
        **(extra or {}),
    }  # fmt: skip
    if extra is None:
        most = PACKED_BYTES if piece is None else min(piece, PACKED_BYTES)
        wanted = packing.Packing(small, fewest, policy.delete_share, target, most)
        if (pack := packing.plan(session, table, order, wanted)) is not None:
            failpoint("before-compaction")
            done = _task_result(pack.commit())
            failpoint("after-compaction")
            return done
    actions = TableActions(session, table)
    together = table.deletes_together and table.snapshot_id is not None
    hidden = together and any(part.delete_share > policy.delete_share for part in found.partitions or (found,))
    if hidden:
        lay_out_deletes(session, table)
    threshold = policy.delete_share
    if piece is not None and (hidden or not together):
        threshold = _threshold(actions.deleted_shares(small), policy.delete_share, piece)
    failpoint("before-compaction")
    packed = actions.rewrite_data_files({**options, "delete-ratio-threshold": threshold}, order)
    failpoint("after-compaction")
    removed = packed.removed + actions.drop_useless_deletes()
    done = TaskResult(removed, packed.added, packed.bytes, left=threshold > policy.delete_share)
    if hidden:
        return done + lay_out_deletes(session, table)
    if together:
        done += _task_result(actions.rewrite_position_deletes({"min-input-files": fewest}))
    return done


def _threshold(files: list[tuple[float, int]], share: float, piece: int) -> float:
    """Return the share of deleted rows from which on a file is written anew.

    That is ``share``, or more where files with less would come to more bytes than a ``piece`` has with those that have
    the most. ``files``: share of deleted rows, and bytes, of those that have deletes by file. Small files are packed
    together whatever is deleted of them, and are no part of the piece: of a hot table's newest rows more is deleted
    than of any others, and large files' turn would never come.
    """
    total, threshold = 0, share
    for deleted, size in sorted(files, reverse=True):
        if deleted < share:
            return share
        if total and total + size > piece:
            return threshold
        total, threshold = total + size, deleted
    return share


def lay_out_deletes(session: SparkSession, table: LakeTable) -> TaskResult:
    """Lay out the positions of deleted rows the other way, those that there are and those of later commits."""
    table.set_properties({DELETE_GRANULARITY: BY_FILE if table.deletes_together else BY_PARTITION})
    table.refresh()
    return _task_result(TableActions(session, table).rewrite_position_deletes({"rewrite-all": "true"}))


def rewrite_manifests(session: SparkSession, table: LakeTable) -> TaskResult:
    """List the table's files in as few manifests as they fit into."""
    return _task_result(TableActions(session, table).rewrite_manifests())


def count_values(session: SparkSession, table: LakeTable, policy: Upkeep, columns: Sequence[str]) -> TaskResult:
    """Count distinct values, which query engines plan by.

    A tag keeps the snapshot that they are of, and so them, until they are counted again; it ends by itself where they
    aren't.
    """
    snapshot = table.snapshot_id
    assert snapshot is not None
    put_tag(table, COUNTED, snapshot, 2 * policy.statistics_every_hours * HOUR)
    counted = TableActions(session, table).count_values(snapshot, columns)
    return TaskResult() if counted is None else TaskResult(added=1, bytes=counted)


def expire(session: SparkSession, table: LakeTable, policy: Upkeep, now: int) -> TaskResult:
    """Give up old snapshots, and delete the files that only they had; an hour's first one is kept, by a tag."""
    name, snapshot = tag(table.branches, now), table.snapshot_id
    if name is not None and snapshot is not None:
        put_tag(table, name, snapshot, policy.snapshots_days * 24 * HOUR)
    before = table.snapshot_times()
    failpoint("before-expiry")
    file_deletion.expire(session, table, keeps_since(policy, table.untagged_times(), now), policy.snapshots)
    failpoint("after-expiry")
    return TaskResult(removed=len(before) - len(table.snapshot_times()))


def purge(
    session: SparkSession, table: LakeTable, policy: Upkeep, found: Health, order: Sequence[Term],
    before_expiry: Callable[[], None], now: int,
) -> TaskResult:  # fmt: skip
    """Leave nothing in any file that isn't in the table as it is now.

    Neither rows stay nor, in manifests, the least and greatest values of files that are gone: write every file anew of
    which a row is deleted, list the files anew, and give up all other snapshots, with every tag. Readers of these fail.
    The table tells when it was done.
    """
    if table.snapshot_id is None:
        return TaskResult()
    done = compact(session, table, policy, found, order, {"delete-file-threshold": 1}, piece=None)
    TableActions(session, table).rewrite_every_manifest()
    before_expiry()
    table.refresh()
    remove_other_refs(table)
    file_deletion.expire(session, table, now + HOUR, 1)
    table.set_properties({PURGED: str(now)})
    return done


def remove_orphans(session: SparkSession, table: LakeTable, policy: Upkeep, now: int) -> TaskResult:
    """Delete files of the table's folder that no snapshot knows, once they are old."""
    older = now - policy.orphans_days * 24 * HOUR
    return TaskResult(removed=TableActions(session, table).delete_orphans(older))


def _task_result(rewritten: RewriteResult) -> TaskResult:
    return TaskResult(rewritten.removed, rewritten.added, rewritten.bytes)
