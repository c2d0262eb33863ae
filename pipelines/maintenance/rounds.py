"""Look, in the pause after a batch, at the tables that may need upkeep, those first that need it most."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

from pipelines.dead_letters.store import commit_positions
from pipelines.errors import one_line
from pipelines.lake import names
from pipelines.lake.catalog import Lake
from pipelines.lake.names import CHECK_TABLES, DEAD_LETTERS, MAINTENANCE, MAINTENANCE_REQUESTS, NAMESPACE, RESYNCS
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Ledger
from pipelines.maintenance.keeper import Keeper
from pipelines.maintenance.plan import PURGE, DueTask, RequestKind
from pipelines.maintenance.record import Record, Request, Requests
from pipelines.maintenance.work import TaskResult
from pipelines.metrics.meter import Meter
from pipelines.specs.load import Specs
from pipelines.specs.upkeep import own_upkeep

# How many commits a table is looked at after; after how many it is even if the mirror has no time to spare.
SOON, OVERDUE = 5, 12
# The mirror's own, which are only ever appended to. (The verifier keeps its own small.)
OWN_TABLES = (DEAD_LETTERS, names.DEAD_LETTER_ACTIONS, RESYNCS, MAINTENANCE, MAINTENANCE_REQUESTS, *CHECK_TABLES)
LOOK_EVERY_SECONDS, WRITE_EVERY_SECONDS, ASK_EVERY_SECONDS = 600.0, 60.0, 5.0


class MaintainedLedger(Protocol):
    """A table as it is now, and what it says of how far it has come."""

    @property
    def table(self) -> LakeTable | None:
        """The table; None: there is none."""
        ...

    @property
    def reached(self) -> Ledger:
        """How far it has come."""
        ...

    def commit_state(self, reached: Ledger, batch: int, balanced: bool = False) -> None:
        """Commit what snapshots say that are about to expire, without data."""
        ...


class MaintainedTable(Protocol):
    """A table that can be maintained between two batches."""

    @property
    def lake_name(self) -> str:
        """``namespace.table`` of the lake."""
        ...

    @property
    def source_table(self) -> tuple[str, str]:
        """The source's schema and table."""
        ...

    def between_batches(self, session: SparkSession) -> AbstractContextManager[MaintainedLedger]:
        """Give the table's ledger as it is now, for commits that change no row."""
        ...


class Maintenance:
    """The upkeep of all tables of a pipeline. Used by the thread that runs its batches, between two of them.

    ``own``: which of the platform's own tables it looks after as well.
    """

    def __init__(
        self, spark: SparkSession, specs: Specs, log: BoundLogger, meter: Meter,
        clock: Callable[[], float] = time.monotonic, own: Sequence[str] = OWN_TABLES,
    ) -> None:  # fmt: skip
        self._meter = meter
        self._session, self._specs, self._log, self._clock, self._own = spark.newSession(), specs, log, clock, own
        self._record, self._requests = Record(spark), Requests(spark)
        self._keepers: dict[str, Keeper] = {}
        self._commits: Counter[str] = Counter()
        self._looked_at: dict[str, float] = {}
        # Those of which the last compaction did a piece.
        self._unfinished: set[str] = set()
        self._flushed_at = self._requests_read_at = self._own_looked_at = clock()

    def committed(self, topic: str) -> None:
        """Note that a table has one more commit."""
        self._commits[topic] += 1

    def run(self, tables: Mapping[str, MaintainedTable], batch: int, until: float, caught_up: bool = False) -> None:
        """Do what is due, as long as it is before ``until`` by the clock.

        ``caught_up``: a backlog has just been caught up with, which leaves much to do. Raises nothing: what fails is
        logged and tried again another time.
        """
        try:
            self._run(tables, batch, until, caught_up)
        except Exception as error:
            self._log.warning("maintenance_failed", error=one_line(error))

    def _run(self, tables: Mapping[str, MaintainedTable], batch: int, until: float, caught_up: bool) -> None:
        now = self._clock()
        if now - self._requests_read_at > ASK_EVERY_SECONDS:
            self._requests_read_at = now
            self._requests.refresh()
        requested = self._requests.tables()
        late = now - self._own_looked_at > LOOK_EVERY_SECONDS and now < until
        if late:
            self._own_looked_at = now
        for name in self._own:
            if late or f"{NAMESPACE}.{name}" in requested:
                self._look_at_own(name)
        worked = False
        for topic in sorted(tables, key=lambda topic: -self._commits[topic]):
            filled = caught_up and self._commits[topic] > 0
            if tables[topic].lake_name in requested or filled or self._due(topic, until, worked):
                worked |= self._look(topic, tables[topic], batch, filled)
        if self._clock() - self._flushed_at > WRITE_EVERY_SECONDS or requested:
            self._record.flush()
            self._flushed_at = self._clock()

    def _due(self, topic: str, until: float, worked: bool) -> bool:
        """Return whether a table is to be looked at now.

        ``worked``: another table was worked on in this round; without time left a batch comes before the next.
        """
        now = self._clock()
        if now >= until:
            return not worked and self._commits[topic] >= OVERDUE
        # A mirror that has just started has other things to do first.
        soon = topic in self._unfinished or self._commits[topic] >= SOON
        return soon or now - self._looked_at.setdefault(topic, now) > LOOK_EVERY_SECONDS

    def _look(self, topic: str, mirror: MaintainedTable, batch: int, caught_up: bool) -> bool:
        """Look at a table, and do what it needs. Return whether there was anything to do."""
        self._commits[topic], self._looked_at[topic] = 0, self._clock()
        if topic not in self._keepers:
            table = mirror.source_table
            self._keepers[topic] = Keeper(self._specs.upkeep(*table), self._specs.layout(*table))
        keeper, request = self._keepers[topic], self._requests.of(mirror.lake_name)
        request_id, kind = (None, RequestKind.NOTHING) if request is None else (request.id, request.kind)
        with mirror.between_batches(self._session) as ledger:

            def commit_total() -> None:
                ledger.commit_state(ledger.reached, batch, balanced=True)

            needed = keeper.due(ledger.table, self._session, kind, caught_up)
            done = [
                self._do(keeper, due, ledger.table, mirror.lake_name, request_id, commit_total, caught_up)
                for due in needed
            ]
        self._unfinished.discard(topic)
        if any(task.left for task in done):
            self._unfinished.add(topic)
        if request is not None:
            self._answer(request)
        return bool(needed)

    def _look_at_own(self, name: str) -> None:
        """Look at a table of the mirror's own, and do what it needs."""
        table, full_name = Lake(self._session).table(NAMESPACE, name), f"{NAMESPACE}.{name}"
        request = self._requests.of(full_name)
        request_id, kind = (None, RequestKind.NOTHING) if request is None else (request.id, request.kind)
        keeper = self._keepers.setdefault(name, Keeper(own_upkeep(self._specs.default_upkeep)))

        def commit_letter_positions() -> None:
            if name == DEAD_LETTERS and table is not None:
                commit_positions(table)

        for due in keeper.due(table, self._session, kind):
            self._do(
                keeper,
                due,
                table,
                full_name,
                request_id,
                commit_letter_positions if due.task == PURGE else lambda: None,
            )
        if request is not None:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        self._record.answered(request.table, request)
        self._requests.close(request)

    def _do(
        self, keeper: Keeper, due: DueTask, table: LakeTable | None, name: str, request_id: str | None,
        before_expiry: Callable[[], None], caught_up: bool = False,
    ) -> TaskResult:  # fmt: skip
        assert table is not None
        began = time.monotonic()
        try:
            task = keeper.do(due, table, self._session, before_expiry, caught_up)
        except Exception as error:
            self._log.warning("task_failed", table=name, task=due.task, why=due.why, error=one_line(error))
            self._record.failed(name, due, one_line(error), request_id)
            self._meter.add("lakehouse_upkeep_tasks_total", table=name, task=due.task, outcome="failed")
            return TaskResult()
        else:
            self._log.info("maintained", table=name, task=due.task, why=due.why, **task.log_fields())
            self._record.done(task, request_id)
            self._meter.add("lakehouse_upkeep_tasks_total", table=name, task=due.task, outcome="done")
            self._meter.add("lakehouse_upkeep_seconds_total", time.monotonic() - began, table=name, task=due.task)
            self._meter.add("lakehouse_upkeep_written_bytes_total", task.done.bytes, table=name, task=due.task)
            return task.done
