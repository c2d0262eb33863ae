"""Rounds: in the pause after a batch, the tables that may need upkeep are looked at, those first that need it most."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

from pipelines.errors import in_a_line
from pipelines.maintenance.keeper import Keeper
from pipelines.maintenance.record import Record, Requests
from pipelines.spec import Specs
from pipelines.table import TableMirror

# How many commits a table is looked at after; after how many it is even if the mirror has no time to spare.
SOON, OVERDUE = 5, 50
LOOK_EVERY_SECONDS, WRITE_EVERY_SECONDS, ASK_EVERY_SECONDS = 600.0, 60.0, 5.0


class Maintenance:
    """The upkeep of all tables of a mirror. Used by the thread that runs its batches, between two of them."""

    def __init__(
        self, spark: SparkSession, specs: Specs, log: BoundLogger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session, self._specs, self._log, self._clock = spark.newSession(), specs, log, clock
        self._record, self._requests = Record(spark), Requests(spark)
        self._keepers: dict[str, Keeper] = {}
        self._commits: Counter[str] = Counter()
        self._looked: dict[str, float] = {}
        self._written = self._asked = clock()

    def committed(self, topic: str) -> None:
        """A table has one more commit."""
        self._commits[topic] += 1

    def run(self, tables: Mapping[str, TableMirror], batch: int, until: float) -> None:
        """Do what is due, as long as it is before ``until`` by the clock. Raises nothing: what fails is told and tried
        again another time.
        """
        try:
            self._run(tables, batch, until)
        except Exception as error:
            self._log.warning("maintenance_failed", error=in_a_line(error))

    def _run(self, tables: Mapping[str, TableMirror], batch: int, until: float) -> None:
        now = self._clock()
        if now - self._asked > ASK_EVERY_SECONDS:
            self._asked = now
            self._requests.refresh()
        asked = self._requests.tables()
        for topic in sorted(tables, key=lambda topic: -self._commits[topic]):
            if tables[topic].lake_name in asked or self._due(topic, until):
                self._look(topic, tables[topic], batch)
        if self._clock() - self._written > WRITE_EVERY_SECONDS or asked:
            self._record.flush()
            self._written = self._clock()

    def _due(self, topic: str, until: float) -> bool:
        now = self._clock()
        if now >= until:
            return self._commits[topic] >= OVERDUE
        # A mirror that has just started has other things to do first.
        return self._commits[topic] >= SOON or now - self._looked.setdefault(topic, now) > LOOK_EVERY_SECONDS

    def _look(self, topic: str, mirror: TableMirror, batch: int) -> None:
        """Look at a table, and do what it needs."""
        self._commits[topic], self._looked[topic] = 0, self._clock()
        if topic not in self._keepers:
            table = mirror.source_table
            self._keepers[topic] = Keeper(self._specs.upkeep(*table), self._specs.layout(*table))
        keeper, request = self._keepers[topic], self._requests.of(mirror.lake_name)
        asked_by = None if request is None else request.id
        with mirror.between_batches(self._session) as account:
            for due in keeper.due(account, self._session, asked=request is not None and request.everything):
                try:
                    task = keeper.do(due, account, self._session, batch)
                except Exception as error:
                    self._log.warning("task_failed", topic=topic, task=due.task, why=due.why, error=in_a_line(error))
                    self._record.failed(mirror.lake_name, due, in_a_line(error), asked_by)
                else:
                    self._log.info("maintained", topic=topic, task=due.task, why=due.why, **task.told())
                    self._record.done(task, asked_by)
        if request is not None:
            self._record.answered(mirror.lake_name, request)
            self._requests.close(request)
