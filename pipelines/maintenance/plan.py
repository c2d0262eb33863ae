"""Plan what a table needs now, and why."""

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from pipelines.lake.properties import BY_FILE, BY_PARTITION
from pipelines.maintenance.health import MIB, Health
from pipelines.specs.layout import Layout, Term
from pipelines.specs.upkeep import Upkeep

COMPACT, MANIFESTS, EXPIRE, ORPHANS = "compact", "rewrite manifests", "expire", "remove orphans"
STATISTICS = "count values"
DELETES = "lay out deletes"
# A reader of one data file reads all that was deleted from its partition, where that is together.
MOST_FILES_TOGETHER = 32
PURGE = "purge"
MINUTE = 60_000
HOUR = 60 * MINUTE


class RequestKind(Enum):
    """A request of a person: what is due, everything whether it is due or not, or a purge."""

    NOTHING = "nothing"
    DUE = "due"
    EVERYTHING = "everything"
    PURGE = "purge"


@dataclass(frozen=True)
class DueTask:
    """A task, and why it is due. ``whole``: all of it at once, however long it takes."""

    task: str
    why: str
    whole: bool = False


def compaction(policy: Upkeep, found: Health, files_before: int) -> DueTask | None:
    """Return whether, and why, a table is to be compacted; None: it isn't.

    One with partitions is, as soon as one of these needs it. ``files_before``: how many files the last compaction had
    left, which another one wouldn't make fewer.
    """
    if found.partitions:
        needing = [due for partition in found.partitions if (due := compaction(policy, partition, 0)) is not None]
        many = f"{len(needing)} of {len(found.partitions)} partitions"
        return DueTask(COMPACT, f"{many}: in one, {needing[0].why}") if needing else None
    largest = policy.target_file_mib * MIB
    if found.delete_share > policy.delete_share and found.delete_files:
        return DueTask(COMPACT, f"{found.delete_share:.0%} of its rows are deleted")
    if found.delete_files >= max(2 * policy.files, found.data_files + 1):
        return DueTask(COMPACT, f"{found.delete_files} files say what is deleted of {found.data_files}")
    more = found.files - max(files_before, found.fewest_files(largest))
    cost = found.scan_cost(largest)
    if more >= policy.files and cost > policy.scan_cost:
        return DueTask(COMPACT, f"a scan costs {cost:.2f} times what it would rewritten ({found.files} files)")
    return None


def deletes(found: Health, granularity: str | None) -> DueTask | None:
    """Return whether, and why, deletes are to be laid out the other way; None: they aren't.

    ``granularity``: the table's own. It stays while the number of files is between half of what is too many and that.
    """
    most = max((partition.data_files for partition in found.partitions), default=found.data_files)
    best = BY_FILE if most > MOST_FILES_TOGETHER else BY_PARTITION if most <= MOST_FILES_TOGETHER // 2 else granularity
    where = " in a partition" if found.partitions else ""
    return None if best == granularity else DueTask(DELETES, f"{most} data files{where}")


def manifests(policy: Upkeep, found: Health, before: int) -> DueTask | None:
    """Return whether, and why, manifests are to be rewritten. ``before``: how many the last rewriting had left."""
    if found.manifests - before < policy.manifests:
        return None
    return DueTask(MANIFESTS, f"its files are listed in {found.manifests} manifests")


def counted_columns(keys: Iterable[str], layout: Layout, has: Container[str]) -> list[str]:
    """Return the columns whose values are counted: those that rows are found by, of those that the table ``has``."""
    laid_out = [Term.parse(text).column for text in (*(layout.partition or ()), *(layout.sort or ()))]
    return [name for name in dict.fromkeys([*keys, *laid_out]) if name in has]


def statistics(policy: Upkeep, found: Health, counted: int | None, now: int) -> DueTask | None:
    """Return whether, and why, values are to be counted.

    ``counted``: when the snapshot was made of which they were counted last, in milliseconds as ``now`` is; None: never.
    """
    if found.bytes < policy.statistics_mib * MIB:
        return None
    if counted is None:
        return DueTask(STATISTICS, "they were never counted")
    age = (now - counted) // HOUR
    return DueTask(STATISTICS, f"they were counted {age} hours ago") if age >= policy.statistics_every_hours else None


def expiry(policy: Upkeep, times: Collection[int], now: int) -> DueTask | None:
    """Return whether, and why, snapshots are to expire.

    ``times``: when the snapshots were made that no tag keeps, and ``now``, in milliseconds.
    """
    since = keeps_since(policy, times, now)
    old = bisect_left(sorted(times)[: -policy.snapshots], since)
    if old < policy.snapshots:
        return None
    why = f"are older than {policy.every_snapshot_minutes} minutes"
    if since > now - policy.every_snapshot_minutes * MINUTE:
        why = f"are more than the newest {policy.most_snapshots}"
    return DueTask(EXPIRE, f"{old} of {len(times)} snapshots {why}")


def keeps_since(policy: Upkeep, times: Collection[int], now: int) -> int:
    """Return since when every snapshot is kept, in milliseconds as ``times`` and ``now`` are."""
    newest = sorted(times)[-policy.most_snapshots :]
    since = now - policy.every_snapshot_minutes * MINUTE
    return max(since, newest[0]) if len(newest) == policy.most_snapshots else since


def tag(tags: Collection[str], now: int) -> str | None:
    """Return the name of the tag that keeps the current snapshot longer than the others; None: this hour has one."""
    name = datetime.fromtimestamp(now / 1000, UTC).strftime("hour-%Y%m%dT%H")
    return None if name in tags else name
