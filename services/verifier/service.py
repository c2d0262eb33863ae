"""The service: look, keep what was found, rest; until asked to stop, or until there is nothing to do for long."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import duckdb
from confluent_kafka import KafkaException
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from structlog.stdlib import BoundLogger

from pipelines.metrics.meter import Meter
from pipelines.sources.base.errors import SourceError
from pipelines.sources.base.tables import KeyRange, SourceTable
from services.stack.errors import LakehouseError
from services.stack.lake import open_catalog
from services.stack.offsets import Offsets, kafka
from services.stack.progress import Progress
from services.stack.source import connect, topics_of
from services.stack.stopping import Stop
from services.verifier import progress
from services.verifier.chunks import Incomparable, Job, Outcome, Postponement, look
from services.verifier.facts import explanations
from services.verifier.rereads import Rereads
from services.verifier.settings import VerifierSettings
from services.verify import record
from services.verify.explanation import PAGE, Explanation
from services.verify.rounds import Finding, TableState

LONGEST_REST = 30.0
RECORD_SECONDS = 300.0
# A rest from which on it is worth while to become a small process that only waits, also in the middle of a round.
LONG_REST = 300.0
KEYS_LOGGED = 20
# What a server that is down, or just comes up, makes of a look: it is tried again.
PASSING = (LakehouseError, SourceError, KafkaException, RESTError, RequestException, duckdb.Error, OSError)


class Stopped(Exception):
    """The process was asked to stop in the middle of a look."""


@dataclass
class Verifier:
    """Verifies the captured tables of one source for ever."""

    settings: VerifierSettings
    stop: Stop
    log: BoundLogger
    states: dict[str, TableState] = field(default_factory=dict)
    recorded: list[record.Row] = field(default_factory=list)
    recorded_at: float = field(default_factory=time.monotonic)
    trouble: str | None = None
    explain: Callable[[VerifierSettings, list[str]], Mapping[str, tuple[Explanation, ...]]] = explanations
    meter: Meter = field(default_factory=lambda: Meter("verifier"))

    @cached_property
    def rereads(self) -> Rereads:
        """What is done about tables that changed without events."""
        return Rereads(self.settings, self.log, self._on_progress)

    def run(self) -> float:
        """Return when asked to stop, or when nothing is due for so many seconds that it is worth while to sleep."""
        known = progress.read(self.settings.state_dir)
        while not self.stop.asked:
            progress.touch(self.settings.state_dir)
            try:
                if known is None:
                    known = {state.table: state for state in record.read(open_catalog(self.settings))}
                self.states = self.states or known
                rest, idle = self._turn()
                self.trouble = None
                if idle and rest > LONGEST_REST:
                    return rest
            except Stopped:
                return 0.0
            except PASSING as error:
                rest = LONGEST_REST / 3
                # DuckDB's messages may hold values of rows.
                said = type(error).__name__ if isinstance(error, duckdb.Error) else " ".join(str(error).split())
                self._say_trouble(said)
            self._rest(rest)
        return 0.0

    def _turn(self) -> tuple[float, bool]:
        """Look once, and say how long to rest, and whether that may be as another process."""
        with connect(self.settings) as source:
            unread = source.why_left_out()
            tables = [table for table in source.tables() if table.full_name not in unread]
            self._know(tables)
            self.states = self.rereads.take(source, self.states)
        mirrored = kafka(self.settings).mirrored()
        jobs = list(self._due(tables, mirrored))
        if not jobs:
            self._record()
            return self.rereads.bounded(self._until_due(), LONGEST_REST), True
        started, rows, large = time.monotonic(), 0, set[str]()
        for job, outcome in look(self.settings, jobs, self._on_progress):
            read = 0 if isinstance(outcome, (Incomparable, Postponement)) else outcome.rows
            rows += read
            self.meter.add("lakehouse_verifier_rows_total", read)
            if read > self.settings.verifier_chunk_rows:
                large.add(job.table.full_name)
            self._take(job, outcome)
        rest = self.settings.rest(rows, time.monotonic() - started)
        for name in large:
            # As long as everybody rests after it was read whole, the others are looked at before it is again.
            self.states[name] = self.states[name].give_way(datetime.now(UTC) + timedelta(seconds=2 * rest))
        progress.write(self.settings.state_dir, self.states)
        rest = self.rereads.bounded(rest, LONGEST_REST)
        often = min(RECORD_SECONDS, self.settings.verifier_pause_seconds)
        if time.monotonic() - self.recorded_at > often or self._differences_changed() or rest > LONG_REST:
            self._record()
        return rest, rest > LONG_REST

    def _rest(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not self.stop.wait(min(left, LONGEST_REST)):
            progress.touch(self.settings.state_dir)

    def _know(self, tables: list[SourceTable]) -> None:
        """Keep a state for each captured table, and none for others."""
        states = {}
        for table in tables:
            kinds = {column.name: column.declared for column in table.columns}
            key = tuple(f"{name} {kinds[name]}" for name in table.key)
            name = table.full_name
            states[name] = self.states[name].of_key(key) if name in self.states else TableState(table=name, key=key)
        self.states = states

    def _due(self, tables: list[SourceTable], mirrored: Offsets) -> Iterator[Job]:
        """Yield what is to be looked at: differences again, then the next chunk of each table.

        The table that was not looked at for longest comes first.
        """
        now, settings = datetime.now(UTC), self.settings
        for table in tables:
            topic = topics_of(settings).topic(table.schema, table.name)
            held = {partition: end for (name, partition), end in mirrored.items() if name == topic}
            for finding in self.states[table.full_name].again_due(now, settings.again, settings.pause, held):
                yield Job(table, finding.within, finding)
        walks = [table for table in tables if self.states[table.full_name].walk_due(now, settings.pause)]
        for table in sorted(walks, key=lambda t: str(self.states[t.full_name].looked_at or "")):
            yield Job(table, KeyRange(self.states[table.full_name].cursor))

    def _take(self, job: Job, outcome: Outcome) -> None:
        now, name = datetime.now(UTC), job.table.full_name
        before = self.states[name]
        put_off = isinstance(outcome, (Incomparable, Postponement))
        self.meter.add("lakehouse_verifier_looks_total", outcome="postponed" if put_off else "compared")
        if isinstance(outcome, Postponement):
            self.states[name] = before.put_off(outcome.reason, now, self.settings.again)
            if outcome.reason != before.not_compared:
                self.log.info("put off", table=name, reason=outcome.reason)
        elif isinstance(outcome, Incomparable):
            self.states[name] = before.leave_out(outcome.reason, now)
            if outcome.reason != before.not_compared:
                self.log.warning("left out", table=name, reason=outcome.reason)
        elif job.finding is None:
            self.states[name] = before.walk(outcome, now)
        elif job.finding in before.findings:
            self.states[name] = before.again(job.finding, outcome, now)
        self._tell(before, self.states[name])

    def _tell(self, before: TableState, now: TableState) -> None:
        for finding in now.confirmed:
            if not any(_same(finding, known) for known in before.confirmed):
                self._alert(now, finding)
        if before.differences and not now.differences:
            self.log.info("differs no more", table=now.table)
        if now.verified is not None and now.verified != before.verified:
            self.log.info(
                "verified", table=now.table, through=now.verified.log_position, at=now.verified.at.isoformat()
            )

    def _alert(self, table: TableState, finding: Finding) -> None:
        kinds = sorted(set(finding.keys.values()))
        self.log.error(
            "the lake differs from its source", table=table.table, rows=finding.count, problems=finding.problems,
            counts=finding.counts and finding.counts.model_dump(),
            keys={kind: [k for k, of in finding.keys.items() if of == kind][:KEYS_LOGGED] for kind in kinds},
            found=finding.found.log_position, snapshot=finding.found.snapshot_id,
            explanation=[str(each) for each in self.explain(self.settings, [table.table])[table.table]],
            next=f"`lakehouse verify {table.table.removeprefix('public.')}` names the rows; see {PAGE}",
        )  # fmt: skip

    def _differences_changed(self) -> bool:
        known = {row["table"]: row["findings"] for row in self.recorded}
        return any(known.get(row["table"], "[]") != row["findings"] for row in map(record.row, self.states.values()))

    def _record(self) -> None:
        rows = [record.row(state) for state in self.states.values()]
        if rows and rows != self.recorded:
            record.write(open_catalog(self.settings), self.states.values())
            self.recorded, self.recorded_at = rows, time.monotonic()

    def _until_due(self) -> float:
        """Return seconds until something is due."""
        now = datetime.now(UTC)
        ends = [s.ended_at + self.settings.pause for s in self.states.values() if s.ended_at is not None]
        ends += [f.due_at(self.settings.again, self.settings.pause) for s in self.states.values() for f in s.findings]
        ends += [s.not_before for s in self.states.values() if s.not_before is not None]
        left = [(moment - now).total_seconds() for moment in ends if moment > now]
        return min(left, default=LONGEST_REST) + 0.1

    def _on_progress(self, _: Progress) -> None:
        progress.touch(self.settings.state_dir)
        if self.stop.asked:
            raise Stopped

    def _say_trouble(self, error: str) -> None:
        if error != self.trouble:
            self.log.warning("can't look; tried again", error=error)
        self.trouble = error


def _same(finding: Finding, known: Finding) -> bool:
    """Return whether ``finding`` tells nothing that ``known`` hasn't told."""
    return (
        finding.within == known.within
        and finding.keys.keys() <= known.keys.keys()
        and set(finding.problems) <= set(known.problems)
    )
