"""Mirror a batch: every captured topic's records, split by table and merged side by side."""

import time
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

from pyspark.sql import DataFrame, SparkSession
from structlog.stdlib import BoundLogger

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.dead_letters.store import DeadLetters
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.errors import RetryBatch, Stopping, StopPipeline
from pipelines.failpoints import failpoint
from pipelines.kafka.checkpoint import OffsetLog
from pipelines.kafka.ranges import Positions, Ranges, non_empty, offset_count
from pipelines.ledger.entries import Ledger
from pipelines.ledger.resyncs import Resyncs
from pipelines.limits import Limits
from pipelines.maintenance.rounds import Maintenance
from pipelines.metrics.meter import Meter
from pipelines.mirror.awaited_offsets import AwaitedOffsets
from pipelines.mirror.background import BackgroundTables
from pipelines.mirror.intake import BatchRecords, Intake
from pipelines.mirror.jobs import TableJobs
from pipelines.mirror.pace import Pace
from pipelines.mirror.plan import Step, TableState, step
from pipelines.mirror.report import MirrorMeter, batch_line
from pipelines.mirror.table.mirror import TableMirror
from pipelines.mirror.tables import PIPELINE, Tables
from pipelines.progress.holds import Holds, Outlook
from pipelines.progress.publish import ProgressPublisher, progress_offsets
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.sources.base.source import StreamSource
from pipelines.spark.executors import Executors
from pipelines.spark.leaks import Leaks
from pipelines.spark.sessions import Sessions
from pipelines.specs.load import Specs
from quality.contract import Contract

PARALLEL_TABLES = 5
# What a batch that commits nothing leaves for upkeep.
IDLE_SECONDS = 5.0


class BatchMirror:
    """The function that ``foreachBatch`` calls.

    A batch ends with every table committed or held, or raises and is tried again. No batch begins once ``stop`` is set;
    ``caught_up`` is set by the first batch that leaves time to spare.
    """

    def __init__(
        self, spark: SparkSession, settings: MirrorSettings, source: StreamSource, stop: Event, caught_up: Event,
        log: BoundLogger, meter: Meter, specs: Specs, contracts: Mapping[tuple[str, str], Contract],
        vault: Vault | None,
    ) -> None:  # fmt: skip
        self._settings, self._stop, self._log, self._holds = settings, stop, log, Holds()
        self._publisher = ProgressPublisher(settings.kafka_bootstrap, log)
        self._pace, self._maintenance = Pace(specs.default_freshness), Maintenance(spark, specs, log, meter)
        self._awaited, self._offsets = AwaitedOffsets(settings.kafka_bootstrap), OffsetLog(settings.checkpoint)
        self._letters = DeadLetters(spark, settings.kafka_bootstrap, PIPELINE)
        self._source, self._limits, self._caught_up = source, Limits(), caught_up
        self._waiting, self._resyncs = WaitingKeys(spark, vault), Resyncs(spark)
        self._known = Tables(spark, settings, source, specs, contracts, vault, self._limits, stop)
        self._tables = self._known.mirrors
        self._meter = MirrorMeter(meter, self._tables)
        self._audited = {source.topic(table) for table, c in contracts.items() if c.blocking}
        self._intake = Intake(settings.kafka_bootstrap, self._tables, self._audited, self._waiting, self._limits)
        self._background = BackgroundTables(spark)
        # Tables whose schema has changed while they were under way.
        self._altered_in_background: set[str] = set()
        # What was left out of the last batch, though that, or one before it, had something for them.
        self._left_out: set[str] = set()
        # Since the last batch that left time to spare there was more than a batch could take.
        self._late = False
        self._leaks, self._executors = Leaks(spark._jvm, log), Executors(spark, log)
        self._pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="table")
        self._sessions = Sessions(spark, PARALLEL_TABLES)
        self._jobs = TableJobs(self._sessions, self._mirror_of, self._limits)

    def __call__(self, records: DataFrame, number: int) -> None:
        """Mirror one batch and log a line about it. Raises Stopping once the process was asked to stop."""
        if self._stop.is_set():
            raise Stopping("no further batch: the mirror was asked to stop")
        failpoint("before-batch")
        started = time.monotonic()
        self._pace.begin()
        ranges = self._offsets.ranges(number)
        offsets = sum(map(offset_count, ranges.values()))
        behind = offsets >= self._settings.max_offsets_per_trigger // 2
        planned = self._of_tables(ranges)
        outcomes = self._background_outcomes(planned)
        altered = self._altered(ranges)
        # Both look, whatever the first one says.
        decided = any([self._waiting.refresh(), self._resyncs.refresh()])
        states, reached = self._states(planned, altered, decided, behind)
        steps = {topic: step(state) for topic, state in states.items()}
        taken = {t: self._from_its_ledger(t, planned[t]) for t, each in steps.items() if each.reads}
        # What holds a table may be a change that it was told of before, and no row.
        told_of = altered | self._holds.all().keys()
        plain = self._plain(taken, told_of, decided)
        looking = time.monotonic()
        with self._intake.take(records, planned, {t: by for t, by in taken.items() if t not in plain}) as batch:
            profiled = time.monotonic()
            due = {t for t in taken.keys() - plain if steps[t] is Step.MIRROR or batch.profile(t).rows}
            for t in due & self._audited:
                self._start_in_background(batch, t, taken[t], number, t in told_of)
            jobs = {t: self._pool.submit(self._jobs.plain, batch, t, taken[t], number, t in told_of) for t in plain} | {
                t: self._pool.submit(
                    self._jobs.looked_at, batch.of(t, taken[t]), batch.profile(t), taken[t], number, t in told_of
                )
                for t in due - self._audited
            }
            outcomes += self._outcomes(jobs, planned)
            for topic in (t for t, each in steps.items() if t not in due | plain and each in (Step.IDLE, Step.READ)):
                self._tables[topic].pass_over(taken.get(topic, planned[topic]))
        waiting = {t: reached[t] for t, each in steps.items() if each is Step.WAIT} | self._background.busy()
        self._left_out = set(waiting)
        ends = {topic: {partition: end for partition, (_, end) in by.items()} for topic, by in ranges.items()}
        self._publisher.publish(progress_offsets(ends, self._holds.all(), waiting))
        if any(outcome.rows or outcome.reread or outcome.schema_changes or outcome.swept for outcome in outcomes):
            failpoint("before-checkpoint")
            self._log.info("batch", **batch_line(number, outcomes, profiled - looking, time.monotonic() - started))
        self._meter.batch(outcomes, self._holds.stuck(), time.monotonic() - started)
        committed = [outcome.topic for outcome in outcomes if outcome.committed]
        # What is under way comes in its own time.
        pause = self._pace.end(bool(committed), waiting.keys() - self._background.busy().keys(), behind)
        idle = not committed and not waiting
        has_time = not behind and bool(pause or idle)
        caught_up, self._late = self._late and has_time, (self._late or behind) and not has_time
        self._pause(number, committed, pause, idle, caught_up)
        if has_time:
            self._caught_up.set()

    def _pause(self, number: int, committed: list[str], pause: float, idle: bool, caught_up: bool) -> None:
        """Wait until the next batch is due, and keep the tables in order meanwhile.

        ``caught_up``: it is the first one that leaves time to spare after a backlog.
        """
        now = time.monotonic()
        self._leaks.clear()
        for topic in committed:
            self._maintenance.committed(topic)
        busy = self._background.busy()
        free = {t: mirror for t, mirror in self._tables.items() if t not in busy and not self._holds.is_held(t)}
        self._maintenance.run(free, number, now + (IDLE_SECONDS if idle else pause), caught_up)
        if not busy and (pause or idle):
            self._executors.renew()
            self._jobs.warm(free.values(), now + (IDLE_SECONDS if idle else pause))
        self._stop.wait(max(0.0, now + pause - time.monotonic()))

    def _states(
        self, planned: Mapping[str, Ranges], altered: Set[str], decided: bool, behind: bool
    ) -> tuple[dict[str, TableState], dict[str, Positions]]:
        """Return what is known of each table; and of those that can wait how far they are."""
        busy = self._background.busy()
        came = {topic for topic, by in planned.items() if non_empty(by)}
        pending = (came | self._left_out) & planned.keys() - busy.keys()
        reached = {} if behind else self._able_to_wait(pending)
        states = {
            t: TableState(
                known=t in self._tables,
                busy=t in busy,
                held=self._holds.is_held(t),
                due=self._holds.due(t, t in came),
                news=decided or t in altered,
                awaits=t in self._tables and self._tables[t].awaits(),
                left_out=t in self._left_out,
                has_offsets=t in came,
                can_wait=t in reached,
            )
            for t in planned
        }
        return states, reached

    def _plain(self, taken: Mapping[str, Ranges], told_of: Set[str], decided: bool) -> set[str]:
        """Return the tables of which most likely nothing has to be looked at before it is mirrored."""
        if decided:
            return set()
        free = {t: by for t, by in taken.items() if t not in self._audited}
        # Of those that are met for the first time it is known once they are opened.
        few = {t for t in free.keys() - self._tables.keys() if offset_count(free[t]) <= self._limits.plain_offsets}
        new = {t for t in few if self._opens_plainly(t, free[t])}
        return new | {t for t in free.keys() & self._tables.keys() - told_of if self._tables[t].is_plain(free[t])}

    def _opens_plainly(self, topic: str, planned: Ranges) -> bool:
        with self._sessions.lend() as session:
            return self._mirror_of(topic).opens_plainly(planned, session)

    def _able_to_wait(self, pending: Iterable[str]) -> dict[str, Positions]:
        """Return the tables for which something has come that can do without it for another batch: how far they are."""
        patient = [topic for topic in pending if self._pace.can_wait(topic) and not self._holds.is_held(topic)]
        reached = {topic: positions for topic in patient if (positions := self._tables[topic].reached) is not None}
        beyond = self._awaited.beyond(reached)
        return {topic: positions for topic, positions in reached.items() if topic not in beyond}

    def _from_its_ledger(self, topic: str, planned: Ranges) -> Ranges:
        """Return ``planned``, with what the table was left out of, unless it is new or held."""
        if topic not in self._tables or self._holds.is_held(topic):
            return planned
        return self._tables[topic].from_ledger(planned)

    def _outcomes(self, jobs: Mapping[str, Future[TopicOutcome]], planned: Mapping[str, Ranges]) -> list[TopicOutcome]:
        """Return what became of every table; those that can't go on are held.

        A failure that no table was spared is not a table's: it is raised, and the batch is tried again as a whole. But
        of a table that was held before, tried again by itself, it may well be.
        """
        failed = {topic: error for topic, job in jobs.items() if (error := job.exception()) is not None}
        shared = [error for error in failed.values() if isinstance(error, (RetryBatch, Stopping))]
        unexpected = [error for error in failed.values() if not isinstance(error, StopPipeline)]
        everything = len(failed) == len(jobs) and not any(self._holds.is_held(topic) for topic in failed)
        if shared or (unexpected and everything):
            raise (shared or unexpected)[0]
        for topic in jobs:
            self._hold_or_release(topic, failed.get(topic), planned[topic])
        return [self._log_warnings(job.result()) for topic, job in jobs.items() if topic not in failed]

    def _background_outcomes(self, planned: Mapping[str, Ranges]) -> list[TopicOutcome]:
        """Return what became of the tables that were mirrored in the background, each of which fails alone."""
        outcomes = []
        for topic, job in self._background.finished().items():
            error, reached = job.exception(), self._tables[topic].reached
            self._hold_or_release(topic, error, planned.get(topic, {}))
            if error is not None:
                continue
            if reached is not None and not Ledger(dict(reached)).skipped(planned.get(topic, {})):
                self._left_out.discard(topic)
            outcomes.append(self._log_warnings(job.result()))
        return outcomes

    def _log_warnings(self, outcome: TopicOutcome) -> TopicOutcome:
        if outcome.layout_refused:
            self._log.warning("layout_refused", topic=outcome.topic, why=outcome.layout_refused)
        if outcome.plan_failed:
            self._log.warning("plan_failed", topic=outcome.topic, why=outcome.plan_failed)
        for promise, why in outcome.not_enforced.items():
            self._log.warning("not_enforced", topic=outcome.topic, promise=promise, why=why)
        return outcome

    def _hold_or_release(self, topic: str, error: BaseException | None, planned: Ranges) -> None:
        """Release a table that goes on, or hold one that failed."""
        if error is not None:
            self._meter.failed(topic, error)
            self._hold(topic, error, planned)
        elif self._holds.release(topic):
            self._log.info("table_released", topic=topic)

    def _hold(self, topic: str, error: BaseException, planned: Ranges) -> None:
        mirror = self._tables[topic]
        with self._sessions.lend() as session:
            positions = mirror.positions(session)
        given_up, let_go = self._waiting.given_up(topic), None
        if mirror.is_gone:
            let_go = Outlook.GONE
        elif mirror.is_left_out:
            let_go = Outlook.LEFT_OUT
        elif given_up and all(end <= max(positions.get(p, 0), given_up.get(p, 0)) for p, (_, end) in planned.items()):
            let_go = Outlook.GIVEN_UP
        if self._holds.put(topic, error, positions, let_go):
            hold = self._holds.all()[topic]
            if let_go:
                self._log.warning("table_let_go", topic=topic, why=let_go.value, reason=hold.reason)
            else:
                details = {} if isinstance(error, StopPipeline) else {"exc_info": error}
                self._log.error("table_held", topic=topic, reason=hold.reason, **details)

    def _of_tables(self, every: Mapping[str, Ranges]) -> dict[str, Ranges]:
        """Return the ranges of tables, of ``every`` topic's in the batch. A topic that has nothing yet is left out."""
        own = self._source.own_topics
        return {
            topic: ranges
            for topic, ranges in every.items()
            if topic not in own and any(end for _, end in ranges.values())
        }

    def _altered(self, ranges: Mapping[str, Ranges]) -> set[str]:
        """Return the topics whose tables' schema the log has news of, which they haven't been told.

        The log is asked at first of all, then when a batch has some of it. Tables that are under way are told later.
        """
        altered, self._altered_in_background = self._altered_in_background, set()
        if not self._tables or non_empty(ranges.get(self._source.schema_topic, {})):
            altered |= {self._source.topic(table) for table in self._source.schema_log.news()}
        self._altered_in_background = altered & self._background.busy().keys()
        return altered

    def _start_in_background(
        self, batch: BatchRecords, topic: str, planned: Ranges, number: int, altered: bool
    ) -> None:
        """Mirror a table beside the batches."""
        job = self._jobs.beside(batch, topic, planned, number, altered)
        with self._sessions.lend() as session:
            self._background.start(topic, self._tables[topic].positions(session), job)

    def _mirror_of(self, name: str) -> TableMirror:
        return self._known.mirror_of(name, self._pace, self._letters, self._waiting, self._resyncs)
