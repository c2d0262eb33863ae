"""Look at a table from time to time, and do what it needs. See infra/decisions/024-maintenance.md."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from pipelines.lake.properties import DELETE_GRANULARITY, KEY_COLUMNS
from pipelines.lake.table import LakeTable
from pipelines.maintenance import work
from pipelines.maintenance.health import Health, health
from pipelines.maintenance.plan import (
    COMPACT,
    DELETES,
    EXPIRE,
    MANIFESTS,
    ORPHANS,
    PURGE,
    STATISTICS,
    DueTask,
    RequestKind,
    compaction,
    counted_columns,
    deletes,
    expiry,
    manifests,
    statistics,
)
from pipelines.maintenance.work import BACKLOG_BYTES, PIECE_BYTES, TaskResult
from pipelines.specs.layout import Layout, Term
from pipelines.specs.upkeep import Upkeep, after_backlog


@dataclass(frozen=True)
class Task:
    """A task that was done: why, what it changed, the table before and after it, and how long it took."""

    table: str
    due: DueTask
    done: TaskResult
    before: Health
    after: Health
    seconds: float

    def log_fields(self) -> dict[str, object]:
        """Return what a line of the log says of it."""
        return {
            "removed": self.done.removed, "added": self.done.added, "bytes": self.done.bytes,
            "files": [self.before.files, self.after.files],
            "snapshots": [self.before.snapshots, self.after.snapshots], "ms": round(self.seconds * 1000),
        }  # fmt: skip


@dataclass
class Keeper:
    """The upkeep of one table. Used by one thread at a time, of a mirrored table by the one that commits to it."""

    policy: Upkeep
    layout: Layout = field(default_factory=Layout)
    clock: Callable[[], float] = time.time
    _files: int = 0
    _manifests: int = 0
    _orphans_removed_at: float = field(default_factory=time.time)

    def due(
        self,
        table: LakeTable | None,
        session: SparkSession,
        kind: RequestKind = RequestKind.NOTHING,
        caught_up: bool = False,
    ) -> list[DueTask]:
        """Return what the table needs, as it was when it was looked up; or what a person has requested (``kind``).

        ``caught_up``: a backlog has just come into it.
        """
        now = round(self.clock() * 1000)
        if table is None or table.snapshot_id is None:
            return []
        if kind is RequestKind.PURGE:
            return [DueTask(PURGE, "asked for")]
        if kind is RequestKind.EVERYTHING:
            tasks = [COMPACT, MANIFESTS, EXPIRE, *([STATISTICS] if self._counted_columns(table) else []), ORPHANS]
            return [DueTask(task, "asked for", whole=True) for task in tasks]
        times = table.untagged_times()
        state = _health(session, table)
        found = [
            deletes(state, table.properties.get(DELETE_GRANULARITY)),
            compaction(self._policy(caught_up), state, self._files),
            manifests(self.policy, state, self._manifests),
            expiry(self.policy, times, now),
            statistics(self.policy, state, table.counted_at, now) if self._counted_columns(table) else None,
        ]  # fmt: skip
        if self.clock() - self._orphans_removed_at > self.policy.orphans_every_hours * 3600:
            found.append(DueTask(ORPHANS, f"every {self.policy.orphans_every_hours} hours"))
        return [due for due in found if due is not None]

    def do(
        self, due: DueTask, table: LakeTable, session: SparkSession, before_expiry: Callable[[], None],
        caught_up: bool = False,
    ) -> Task:  # fmt: skip
        """Do one task.

        ``before_expiry`` records what is known from the snapshots that will expire. ``caught_up``: as for :meth:`due`.
        Raises what Iceberg raises; the table is as it was then, or as if the task had been done.
        """
        started = time.monotonic()
        before, now = _health(session, table), round(self.clock() * 1000)
        if due.task == COMPACT:
            piece = None if due.whole else BACKLOG_BYTES if caught_up else PIECE_BYTES
            done = work.compact(session, table, self._policy(caught_up), before, self._order(table), piece=piece)
        elif due.task == DELETES:
            done = work.lay_out_deletes(session, table)
        elif due.task == MANIFESTS:
            done = work.rewrite_manifests(session, table)
        elif due.task == PURGE:
            done = work.purge(session, table, self.policy, before, self._order(table), before_expiry, now)
        elif due.task == STATISTICS:
            done = work.count_values(session, table, self.policy, self._counted_columns(table))
        elif due.task == EXPIRE:
            before_expiry()
            done = work.expire(session, table, self.policy, now)
        else:
            done = work.remove_orphans(session, table, self.policy, now)
            self._orphans_removed_at = self.clock()
        table.refresh()
        after = _health(session, table)
        if due.task in (COMPACT, PURGE):
            self._files = after.files
        if due.task in (MANIFESTS, PURGE):
            self._manifests = after.manifests
        name = f"{table.namespace}.{table.name}"
        return Task(name, due, done, before, after, time.monotonic() - started)

    def _policy(self, caught_up: bool) -> Upkeep:
        """Return the policy by which it is decided what is compacted."""
        return after_backlog(self.policy) if caught_up else self.policy

    def _order(self, table: LakeTable) -> list[Term]:
        """Return what the rewritten files of a table are sorted by."""
        if self.layout.sort is not None:
            return self.layout.sort_terms
        return [Term("identity", key) for key in _keys(table)] if self.policy.sort == "key" else []

    def _counted_columns(self, table: LakeTable) -> list[str]:
        """Return the columns whose values are counted."""
        return counted_columns(_keys(table), self.layout, table.column_types)


def _keys(table: LakeTable) -> list[str]:
    return list(json.loads(table.properties.get(KEY_COLUMNS, "[]")))


def _health(session: SparkSession, table: LakeTable) -> Health:
    parts = session.table(f"{table.sql_name}.partitions").collect() if table.partitioned else []
    return health(table.summary, table.snapshot_count, table.manifest_count, (part.asDict() for part in parts))
