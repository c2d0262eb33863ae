"""Bring one stream's events into its table: what lies between its ledger and the topic's end, some at a time.

A commit appends the events, and its summary says which offsets it accounts for. So each event is there once, whatever
was killed on the way; no checkpoint beside the table is needed.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.enforce import Enforcement
from pipelines.checks.audit import AuditBranch, audited
from pipelines.dead_letters.circuit_breaker import check_share
from pipelines.dead_letters.store import DeadLetters, rejected_records
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.errors import RetryBatch, StopPipeline
from pipelines.events.decode import StreamSchema
from pipelines.events.evolve import event_columns
from pipelines.events.outcome import StreamOutcome
from pipelines.events.plan import INGESTED, OFFSET, PARTITION, StreamPlan, StreamRows
from pipelines.events.schemas import StreamSchemas
from pipelines.events.seen import SeenEvents
from pipelines.events.setup import StreamSetup
from pipelines.events.write import event_times, write_rows
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.kafka.registry import SchemaLookup
from pipelines.kafka.topic_reader import TopicReader, split_ranges
from pipelines.lake.append import append_files
from pipelines.lake.catalog import Lake
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.row_delta import Moved
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts
from pipelines.ledger.guard import ledger_guard
from pipelines.ledger.resyncs import Resync, Resyncs
from pipelines.ledger.table_ledger import TableLedger
from pipelines.ledger.topic_check import TopicCheck
from pipelines.protection.columns import ProtectedColumns
from pipelines.protection.functions import Vault
from pipelines.spark.dataframes import from_arrow
from pipelines.specs.events import EventSpec
from quality.contract import Contract

PIPELINE = "streams"
# Of the events that a commit appended: the first and last time at which they happened, and how many seconds the latest
# of them took to come.
EVENT_TIMES = "lakehouse.event-times"


@dataclass(frozen=True)
class StreamRules:
    """What a stream is brought in by, beside its spec. ``state``: a folder of its own; ``at_once``: offsets a commit.

    ``dead_share``: of a commit's records so many may be dead letters. ``audit``: what stands between the table's
    commits and its readers, if anything does.
    """

    contract: Contract | None
    vault: Vault | None
    dead_share: float
    at_once: int
    state: Path
    audit: AuditBranch | None = None


class StreamTable:
    """One stream's table. Used by one thread at a time."""

    def __init__(
        self, spec: EventSpec, records: TopicReader, registry: SchemaLookup, letters: DeadLetters, waiting: WaitingKeys,
        rules: StreamRules,
    ) -> None:  # fmt: skip
        self.spec, self._records, self._letters, self._waiting, self._rules = spec, records, letters, waiting, rules
        self._ledger = TableLedger(PIPELINE, *spec.name)
        self._check = TopicCheck(spec.topic, records, "lakehouse resync --events", letters.void, is_all=True)
        self._schemas = StreamSchemas(spec, registry)
        self._protected = ProtectedColumns(rules.contract, rules.vault)
        self._enforcement = Enforcement(rules.contract) if rules.contract is not None else None
        self._setup = StreamSetup(spec, records, self._schemas, self._ledger, self._protected, rules.contract,
            rules.audit)  # fmt: skip
        self._plan: StreamPlan | None = None
        self._own: SparkSession | None = None
        self._seen: SeenEvents | None = None
        self._stale, self._visible = True, dict[int, int]()

    @property
    def lake_name(self) -> str:
        """``namespace.table`` of the lake."""
        return self.spec.table

    @property
    def source_table(self) -> tuple[str, str]:
        """What its spec is found by."""
        return self.spec.name

    @property
    def positions(self) -> Mapping[int, int]:
        """Partition to the offset up to which readers of the table see everything."""
        return self._visible

    def between_batches(self, session: SparkSession) -> AbstractContextManager[TableLedger]:
        """Give the table's ledger as it is now, for commits that change no row."""
        self._stale = True
        return self._ledger.as_it_is(Lake(session))

    def bring(self, session: SparkSession, number: int) -> StreamOutcome:
        """Bring in what the topic has by now. Raises RetryBatch, or StopPipeline where a person must act."""
        outcome = StreamOutcome()
        partitions = self._records.partitions(self.spec.topic)
        if not partitions:
            return outcome
        if self._stale:
            self._ledger.load(Lake(session))
            self._stale, self._visible = False, dict(self._ledger.known.positions)
        self._ledger.partitions = len(partitions)
        try:
            outcome.changes += self._check.make(session, self._ledger, lambda: self._resync(session), number)
            pending = self._pending(partitions, outcome, number)
            if pending:
                with audited(self._rules.audit, self._ledger, Lake(session)):
                    for ranges in split_ranges(pending, self._rules.at_once):
                        self._bring(session, ranges, number, outcome)
        except BaseException as error:
            # The commit may have been done all the same: the table tells.
            self._ledger.forget()
            self._stale = True
            self._check.forget()
            if isinstance(error, Moved):
                raise RetryBatch(str(error)) from error
            raise
        # Not before: what is being audited nobody sees yet.
        self._visible = dict(self._ledger.known.positions)
        return outcome

    def _resync(self, session: SparkSession) -> Resync | None:
        resyncs = Resyncs(session)
        resyncs.refresh()
        return resyncs.of(self.spec.topic)

    def _pending(self, partitions: list[int], outcome: StreamOutcome, number: int) -> Ranges:
        """Return what isn't in the table yet of what Kafka has. What it has lost is told, and accounted for."""
        ends = self._records.present_ends(self.spec.topic, partitions)
        pending = self._ledger.reached.up_to(ends)
        if not pending:
            return {}
        lost = self._records.lost(self.spec.topic, pending)
        if lost:
            if self._ledger.known.positions:
                outcome.lost = offset_count(lost)
                self._ledger.give_up(lost, number)
            else:
                # What was deleted before the table's first event was never asked for.
                self._ledger.read_through(lost)
            pending = self._ledger.reached.up_to(ends)
        return pending

    def _bring(self, session: SparkSession, ranges: Ranges, number: int, outcome: StreamOutcome) -> None:
        while True:
            table = self._ledger.table
            schema = self._schemas.current(event_columns(table, self.spec) if table is not None else ())
            if schema is None:
                self._setup.first_schema(ranges)
                continue
            known = self._plan is not None and self._plan.schema.columns == schema.columns
            table = self._setup.ready(session, schema, known, outcome)
            plan = self._planned(session, schema, table, outcome)
            rows = plan.run(ranges)
            if not self._schemas.meet(rows.unknown):
                break
        self._commit(session, table, plan, rows, ranges, number, outcome)

    def _planned(
        self, session: SparkSession, schema: StreamSchema, table: LakeTable, outcome: StreamOutcome
    ) -> StreamPlan:
        if self._plan is None or self._plan.schema != schema or self._plan.identity != table.identity:
            partitioning = Partitioning.of(table)
            if partitioning is None:
                raise StopPipeline(
                    f"{self.spec.table} can't be partitioned so here: change layout.partition in its spec"
                )
            self._own = self._own or session.newSession()
            self._plan = StreamPlan(
                self._own, self.spec, schema, table, self._records, self._enforcement, self._protected, partitioning
            )
            outcome.not_enforced |= self._plan.not_enforced
        return self._plan

    def _commit(
        self, session: SparkSession, table: LakeTable, plan: StreamPlan, rows: StreamRows, ranges: Ranges, number: int,
        outcome: StreamOutcome,
    ) -> None:  # fmt: skip
        records = rows.good.num_rows + rows.bad.num_rows
        if rows.bad.num_rows:
            self._keep_letters(session, rows.bad, records, ranges, number)
        good, seen = rows.good, self._seen_events(session)
        if seen is not None and good.num_rows:
            good = good.sort_by([(INGESTED, "ascending"), (PARTITION, "ascending"), (OFFSET, "ascending")])
            good = good.filter(pa.array(seen.fresh(table, good)))
        counts = Counts(
            merged=good.num_rows, dead_lettered=rows.bad.num_rows, tombstones=rows.tombstones,
            duplicates=rows.good.num_rows - good.num_rows,
        )  # fmt: skip
        before = table.snapshot_id
        written = write_rows(table, session, plan.partitioning, good) if good.num_rows else []
        times = event_times(good, self.spec.event_time.column)

        def append(summary: Mapping[str, str]) -> None:
            more = {} if times is None else {EVENT_TIMES: json.dumps(times)}
            files = [file for file, _ in written]
            append_files(table, files, {**summary, **more}, ledger_guard(table, self._ledger.known))

        offsets = self._ledger.known.up_to(self._ledger.reached.after(ranges).positions)
        self._ledger.commit(number, offsets, counts, append if written else None, None, rows.broken)
        self._ledger.read_through(ranges)
        if seen is not None:
            seen.committed(table, before, written)
        outcome.rows += records
        outcome.counts += counts
        outcome.commits += 1
        outcome.broken.update(rows.broken)
        if times is not None:
            outcome.lateness = max(outcome.lateness or 0.0, float(times["lateness"]))
            came = pc.min(good[INGESTED]).as_py()
            outcome.oldest = came if outcome.oldest is None else min(outcome.oldest, came)

    def _seen_events(self, session: SparkSession) -> SeenEvents | None:
        rule = self.spec.deduplicate
        if rule is not None and self._seen is None:
            folder = self._rules.state / "seen" / self.spec.table
            self._seen = SeenEvents(rule, self.spec.event_time.column, Storage.of(session), folder)
        return self._seen

    def _keep_letters(
        self, session: SparkSession, bad: pa.Table, records: int, ranges: Ranges, number: int
    ) -> None:  # fmt: skip
        topic, named = self.spec.topic, _spans(bad)
        verdicts = from_arrow(session, bad.rename_columns(["partition", "offset", "problem"]))
        for _, raw in self._records.read(session, topic, named, whole=True):
            letters: DataFrame = rejected_records(raw, verdicts)
            check_share(letters, topic, records, self._rules.dead_share, self._waiting.accepted(topic))
            self._letters.write(self._protected.sealed(letters), topic, number, ranges)


def _spans(bad: pa.Table) -> dict[int, tuple[int, int]]:
    """Return the ranges among which all these positions are."""
    found = bad.group_by(PARTITION).aggregate([(OFFSET, "min"), (OFFSET, "max")])
    columns = (found[PARTITION], found[f"{OFFSET}_min"], found[f"{OFFSET}_max"])
    return {p: (low, high + 1) for p, low, high in zip(*(c.to_pylist() for c in columns), strict=True)}
