"""Bring all streams in, each as often as its freshness asks for, and keep their tables in order in between."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Event

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.errors import PipelineError
from pipelines.events.outcome import StreamOutcome
from pipelines.events.table import StreamTable
from pipelines.maintenance.rounds import Maintenance
from pipelines.progress.holds import Holds
from pipelines.progress.publish import METADATA_CHARACTERS, ProgressPublisher
from pipelines.spark.sessions import Sessions
from pipelines.specs.load import Specs

PARALLEL_TABLES = 2
SHORTEST_SECONDS, IDLE_SECONDS = 0.5, 5.0
# Of its freshness a table waits so much for more to come; the rest is for bringing that in.
WAITING_SHARE = 0.6


@dataclass
class _Pace:
    """When a stream is due next, by the monotonic clock."""

    every: float
    due: float = 0.0


class Streams:
    """The streams of one process. ``jvm_lives``: whether Spark can still be asked."""

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, StreamTable], specs: Specs, waiting: WaitingKeys,
        publisher: ProgressPublisher, stop: Event, log: BoundLogger, jvm_lives: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._waiting = waiting
        self._tables, self._publisher, self._stop, self._log = tables, publisher, stop, log
        self._jvm_lives, self._holds = jvm_lives, Holds()
        self._sessions = Sessions(spark, PARALLEL_TABLES)
        self._pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="stream")
        self._maintenance = Maintenance(spark, specs, log, own=())
        self._paces = {
            topic: _Pace(max(SHORTEST_SECONDS, WAITING_SHARE * specs.freshness(*table.source_table)))
            for topic, table in tables.items()
        }

    def round(self) -> None:
        """Bring in what is due, and wait until the next stream is. Raises RuntimeError once Spark is gone."""
        number, began = int(time.time()), time.monotonic()
        # A person may have let letters pass, which one is held for.
        if self._holds.all():
            self._waiting.refresh()
        due = [topic for topic in self._tables if self._is_due(topic, began)]
        brought = dict(zip(due, self._pool.map(lambda topic: self._bring(topic, number), due), strict=True))
        for topic, came in brought.items():
            self._paces[topic].due = began + self._paces[topic].every
            if came:
                self._maintenance.committed(topic)
        self._publish()
        until = min((pace.due for pace in self._paces.values()), default=began + IDLE_SECONDS)
        free = {topic: table for topic, table in self._tables.items() if not self._holds.is_held(topic)}
        if not self._stop.is_set():
            self._maintenance.run(free, number, until)
        self._stop.wait(max(0.05, until - time.monotonic()))

    def _is_due(self, topic: str, now: float) -> bool:
        return self._holds.due(topic) if self._holds.is_held(topic) else now >= self._paces[topic].due

    def _bring(self, topic: str, number: int) -> bool:
        """Bring a stream in; return whether its table has commits more."""
        table, began = self._tables[topic], time.monotonic()
        try:
            with self._sessions.lend() as session:
                outcome = table.bring(session, number)
        except Exception as error:
            if not self._jvm_lives():
                raise RuntimeError("Spark's JVM is gone") from error
            self._hold(topic, error)
            return False
        if self._holds.release(topic):
            self._log.info("table_released", topic=topic)
        self._tell(table, outcome, time.monotonic() - began)
        return outcome.commits > 0

    def _hold(self, topic: str, error: Exception) -> None:
        table = self._tables[topic]
        if self._holds.put(topic, error, table.positions):
            details = {} if isinstance(error, PipelineError) else {"exc_info": error}
            self._log.error("table_held", topic=topic, reason=self._holds.all()[topic].reason, **details)

    def _tell(self, table: StreamTable, outcome: StreamOutcome, seconds: float) -> None:
        for promise, why in outcome.not_enforced.items():
            self._log.warning("not_enforced", topic=table.spec.topic, promise=promise, why=why)
        if outcome.layout_refused:
            self._log.warning("layout_refused", topic=table.spec.topic, why=outcome.layout_refused)
        if outcome.lost:
            self._log.error("offsets_lost", topic=table.spec.topic, offsets=outcome.lost,
                            why="Kafka deleted them before they were read, and nobody else has them",
                            next="infra/runbooks/offsets-lost.md")  # fmt: skip
        if not (outcome.commits or outcome.changes):
            return
        counts = {name: count for name, count in asdict(outcome.counts).items() if count}
        lag = None if outcome.oldest is None else round((datetime.now(UTC) - outcome.oldest).total_seconds() * 1000)
        self._log.info("appended", table=table.lake_name, rows=outcome.rows, **counts, commits=outcome.commits,
                       changes=outcome.changes, broken=dict(outcome.broken), lateness_s=outcome.lateness,
                       ms=round(seconds * 1000), lag_ms=lag)  # fmt: skip

    def _publish(self) -> None:
        holds = self._holds.all()
        self._publisher.publish(
            {
                (topic, partition): (offset, holds[topic].told[:METADATA_CHARACTERS] if topic in holds else "")
                for topic, table in self._tables.items()
                for partition, offset in table.positions.items()
            }
        )
