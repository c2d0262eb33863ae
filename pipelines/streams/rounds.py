"""Bring all streams and derived tables up to date, each as often as its freshness asks for.

Each is brought in by itself: one that takes its time keeps none waiting but for the threads that there are. What is
under way isn't maintained.
"""

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.derived.outcome import DerivedOutcome
from pipelines.derived.table import DerivedTable
from pipelines.errors import PipelineError
from pipelines.events.outcome import StreamOutcome
from pipelines.events.table import StreamTable
from pipelines.maintenance.rounds import Maintenance
from pipelines.metrics.meter import Meter
from pipelines.progress.holds import HELD, Holds
from pipelines.progress.publish import METADATA_CHARACTERS, ProgressPublisher
from pipelines.spark.sessions import Sessions
from pipelines.specs.load import Specs
from pipelines.streams.report import StreamsMeter

PARALLEL_TABLES = 2
SHORTEST_SECONDS, IDLE_SECONDS = 0.5, 5.0
# Of its freshness a table waits so much for more to come; the rest is for bringing that in.
WAITING_SHARE = 0.6

Brought = StreamTable | DerivedTable


@dataclass
class _Pace:
    """When a table is due next, by the monotonic clock."""

    every: float
    due: float = 0.0


class Streams:
    """The tables of one process, by topic, or by their own name. ``jvm_lives``: whether Spark can still be asked.

    ``state``: a folder in which is told what is held.
    """

    def __init__(
        self, spark: SparkSession, tables: Mapping[str, Brought], specs: Specs, waiting: WaitingKeys,
        publisher: ProgressPublisher, stop: Event, log: BoundLogger, jvm_lives: Callable[[], bool], state: Path,
        meter: Meter,
    ) -> None:  # fmt: skip
        self._waiting, self._state, self._meter = waiting, state, StreamsMeter(meter)
        self._tables, self._publisher, self._stop, self._log = tables, publisher, stop, log
        self._jvm_lives, self._holds = jvm_lives, Holds()
        self._told: dict[str, str] | None = None
        self._sessions = Sessions(spark, PARALLEL_TABLES)
        self._pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="stream")
        self._running: dict[str, Future[bool]] = {}
        self._maintenance = Maintenance(spark, specs, log, meter, own=())
        self._paces = {
            topic: _Pace(max(SHORTEST_SECONDS, WAITING_SHARE * specs.freshness(*table.source_table)))
            for topic, table in tables.items()
        }

    def round(self) -> None:
        """Begin what is due, and wait until something has ended, or is due. Raises RuntimeError once Spark is gone."""
        number, now = int(time.time()), time.monotonic()
        # A person may have let letters pass, which one is held for.
        if self._holds.all():
            self._waiting.refresh()
        due = [topic for topic in self._tables if topic not in self._running and self._is_due(topic, now)]
        # Where there are more than threads, those first that are late by the most of their own pace.
        due.sort(key=lambda topic: (self._paces[topic].due - now) / self._paces[topic].every)
        for topic in due[: PARALLEL_TABLES - len(self._running)]:
            self._paces[topic].due = now + self._paces[topic].every
            self._running[topic] = self._pool.submit(self._bring, topic, number)
        self._await(max(0.05, self._next_due() - time.monotonic()))
        self._publish()
        free = {
            topic: table
            for topic, table in self._tables.items()
            if topic not in self._running and not self._holds.is_held(topic)
        }
        if not self._stop.is_set():
            self._maintenance.run(free, number, self._next_due())

    def finish(self) -> None:
        """Return once nothing is under way."""
        wait(self._running.values())

    def _await(self, seconds: float) -> None:
        """Wait so long, or until something has ended, and note what has."""
        if self._running:
            wait(self._running.values(), seconds, FIRST_COMPLETED)
        else:
            self._stop.wait(seconds)
        for topic in [topic for topic, future in self._running.items() if future.done()]:
            if self._running.pop(topic).result():
                self._maintenance.committed(topic)

    def _next_due(self) -> float:
        if len(self._running) >= PARALLEL_TABLES:
            return time.monotonic() + IDLE_SECONDS
        waiting = (pace.due for topic, pace in self._paces.items() if topic not in self._running)
        return min(min(waiting, default=float("inf")), time.monotonic() + IDLE_SECONDS)

    def _is_due(self, topic: str, now: float) -> bool:
        return self._holds.due(topic) if self._holds.is_held(topic) else now >= self._paces[topic].due

    def _bring(self, topic: str, number: int) -> bool:
        """Bring a table up to date; return whether it has commits more."""
        table, began = self._tables[topic], time.monotonic()
        try:
            with self._sessions.lend() as session:
                outcome = table.bring(session, number)
        except Exception as error:
            if not self._jvm_lives():
                raise RuntimeError("Spark's JVM is gone") from error
            self._meter.failed(table.lake_name, error)
            self._hold(topic, error)
            return False
        if self._holds.release(topic):
            self._log.info("table_released", topic=topic)
        self._meter.brought(table.lake_name, outcome, time.monotonic() - began)
        if isinstance(table, StreamTable) and isinstance(outcome, StreamOutcome):
            self._tell(table, outcome, time.monotonic() - began)
        elif isinstance(outcome, DerivedOutcome):
            self._tell_derived(table.lake_name, outcome, time.monotonic() - began)
        return outcome.commits > 0

    def _hold(self, topic: str, error: Exception) -> None:
        table = self._tables[topic]
        if self._holds.put(topic, error, table.positions):
            details = {} if isinstance(error, PipelineError) else {"exc_info": error}
            self._log.error("table_held", topic=topic, reason=self._holds.all()[topic].reason, **details)

    def _tell_derived(self, name: str, outcome: DerivedOutcome, seconds: float) -> None:
        if outcome.layout_refused:
            self._log.warning("layout_refused", topic=name, why=outcome.layout_refused)
        if not (outcome.commits or outcome.changes or outcome.announced or outcome.late):
            return
        counts = {count: value for count in ("inserted", "updated", "deleted", "late", "announced", "keys", "why")
                  if (value := getattr(outcome, count))}  # fmt: skip
        self._log.info("derived", table=name, how=outcome.how, **counts, commits=outcome.commits,
                       changes=outcome.changes, ms=round(seconds * 1000), lag_ms=_since(outcome.oldest))  # fmt: skip

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
        self._log.info("appended", table=table.lake_name, rows=outcome.rows, **counts, commits=outcome.commits,
                       changes=outcome.changes, broken=dict(outcome.broken), lateness_s=outcome.lateness,
                       ms=round(seconds * 1000), lag_ms=_since(outcome.oldest))  # fmt: skip

    def _publish(self) -> None:
        holds = self._holds.all()
        stuck = self._holds.stuck()
        self._meter.held({table.lake_name: topic in stuck for topic, table in self._tables.items()})
        self._tell_held({topic: hold.told for topic, hold in holds.items() if hold.told})
        self._publisher.publish(
            {
                (topic, partition): (offset, holds[topic].told[:METADATA_CHARACTERS] if topic in holds else "")
                for topic, table in self._tables.items()
                for partition, offset in table.positions.items()
            }
        )

    def _tell_held(self, held: dict[str, str]) -> None:
        """Say in the state directory which tables are held; whoever reads it finds it whole."""
        if held != self._told:
            new = self._state / f".{HELD}"
            new.write_text(json.dumps(held), encoding="utf-8")
            new.replace(self._state / HELD)
            self._told = held


def _since(moment: datetime | None) -> int | None:
    """Return how long ago that was, in milliseconds."""
    return None if moment is None else round((datetime.now(UTC) - moment).total_seconds() * 1000)
