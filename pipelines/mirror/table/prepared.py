"""Commit a few records to a table by a plan that is made once, straight from Kafka to the table's files.

The usual way (:mod:`pipelines.mirror.table.commits`) looks at what has come, and plans each step for it anew. What it
has found out of a table, its columns and schemas, stays so for long; a plan is made of that, for records that need no
more. Whatever else is among them, or has changed meanwhile, sends the batch the usual way, with nothing done.
"""

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipelines.changes.enforce import Enforcement
from pipelines.changes.prepare import decode_changes, ready_changes
from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.errors import JavaRaised, one_line
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.lake.clock import check_clock
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.ledger.table_ledger import TableLedger
from pipelines.limits import Limits
from pipelines.merge.direct import DirectWrite
from pipelines.merge.prepared import CARRIED, Facts, facts_of, fold_with_facts
from pipelines.mirror.table.ports import WaitingLookup
from pipelines.mirror.table.resolved import ResolvedBatch
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.spark.prepared import PLANNED_ONCE, KeepsState, PreparedPlan
from quality.contract import Contract

# So long nothing is brought by a plan that has failed.
FAILED_SECONDS = 60.0


def _fits(table: LakeTable, resolved: ResolvedBatch) -> bool:
    """Return whether the table has the columns that records of this schema are for."""
    has = table.column_types
    return all(has.get(column.name) == printed(column.type.iceberg) for column in resolved.lake_shape.columns)


@dataclass(frozen=True)
class _Plan:
    """A plan, and what it was made for. ``table``: its location, and its schema's id."""

    plan: PreparedPlan
    table: tuple[str, int]
    shape: TableShape
    keys: tuple[str, ...]
    partitioning: Partitioning
    has_unavailable: bool


class PreparedCommits:
    """The commits of one table that need no look. Used by one thread at a time."""

    def __init__(
        self,
        topic: Topic,
        ledger: TableLedger,
        protected: ProtectedColumns,
        contract: Contract | None,
        limits: Limits,
        waiting: WaitingLookup,
    ) -> None:
        self._topic, self._ledger, self._protected, self._contract = topic, ledger, protected, contract
        self._limits, self._waiting = limits, waiting
        self._resolved: ResolvedBatch | None = None
        self._refused: ResolvedBatch | None = None
        self._plan: _Plan | None = None
        self._session: SparkSession | None = None
        # Events of the table have been met that lack unchanged values.
        self._lacking = False
        self._not_before = 0.0

    def learn(self, resolved: ResolvedBatch) -> None:
        """Note what the usual way has found out of a batch that it has committed."""
        if self._resolved is None or not resolved.same_schema(self._resolved):
            self._resolved, self._plan = resolved, None

    @property
    def ready(self) -> bool:
        """Whether records can be brought in so, as far as is known of the table."""
        resolved, table = self._resolved, self._ledger.table
        return (
            resolved is not None
            and resolved is not self._refused
            and table is not None
            and time.monotonic() >= self._not_before
            and bool(resolved.keys)
            and len(resolved.schemas.written) == 1
            and not resolved.schemas.rejected
            and resolved.batch.profile.key_schema_ids != set()
            and resolved.versions == self._topic.versions()
        )

    def bring(
        self, session: SparkSession, planned: Ranges, live: LiveRows | None, outcome: TopicOutcome, number: int
    ) -> bool:
        """Bring what is next of the topic into the table, up to the topic's present end, and to ``planned`` at least.

        Returns False where that must be brought the usual way; nothing was done then.
        """
        ledger, table = self._ledger, self._ledger.table
        reached, present = ledger.reached.positions, self._topic.present_ends(planned.keys())
        ends = {p: max(end, present.get(p, 0)) for p, (_, end) in planned.items()}
        if sum(max(0, end - reached.get(p, 0)) for p, end in ends.items()) > self._limits.plain_offsets:
            ends = {p: end for p, (_, end) in planned.items()}
        pending = non_empty({p: (reached.get(p, 0), end) for p, end in ends.items()})
        if not pending:
            return True
        # Another table's thread may have read of a change meanwhile.
        if live is None or table is None or not self.ready:
            return False
        check_clock(table)
        offsets = ledger.known.up_to(ledger.reached.after(pending).positions)
        return self._make(session, pending, offsets, live, outcome, number)

    def _make(
        self, session: SparkSession, ranges: Ranges, offsets: Ranges, live: LiveRows, outcome: TopicOutcome, number: int
    ) -> bool:
        """Bring ``ranges``, which are what comes next, into the table.

        ``offsets``: what the commit accounts for, ranges that were read before without a record among them. Returns
        False where they must be brought the usual way; nothing was done then.
        """
        table = self._ledger.table
        assert table is not None
        found = self._folded(session, table, ranges, outcome)
        if found is None:
            return False
        plan, rows, facts = found
        if not facts.events:
            return self._without_rows(ranges, offsets, facts, outcome, number)
        with outcome.stage("look_up"):
            write = DirectWrite.of(table, live, Storage.of(session), rows, plan.shape, plan.keys, plan.partitioning)
        if write is None:
            return False
        outcome.rows += facts.events + facts.tombstones
        outcome.oldest_commit = facts.oldest
        outcome.note(facts.counts, facts.broken)
        with outcome.stage("merge"):
            self._ledger.commit(number, offsets, facts.counts, write.commit, None, facts.broken)
        self._ledger.read_through(ranges)
        outcome.committed = True
        outcome.writers["prepared"] += 1
        return True

    def _without_rows(self, ranges: Ranges, offsets: Ranges, facts: Facts, outcome: TopicOutcome, number: int) -> bool:
        """Account for ranges that hold no change: nothing but markers of transactions, or tombstones."""
        if facts.tombstones:
            outcome.rows += facts.tombstones
            outcome.note(facts.counts, {})
            self._ledger.commit(number, offsets, facts.counts)
        self._ledger.read_through(ranges)
        return True

    def _folded(
        self, session: SparkSession, table: LakeTable, ranges: Ranges, outcome: TopicOutcome
    ) -> tuple[_Plan, pa.Table, Facts] | None:
        """Return what these ranges hold, folded, and by which plan; None: it isn't for them."""
        plan = self._planned(session, table, outcome)
        if plan is None:
            return None
        rows = self._ran(plan, ranges, outcome)
        if rows is None:
            return None
        facts = facts_of(rows, self._waiting.keys(self._topic.name))
        if facts.odd or self._has_void(rows, facts):
            return None
        if facts.incomplete and not plan.has_unavailable:
            # Where one event lacks a value, later ones do as well.
            self._lacking, self._plan = True, None
            return self._folded(session, table, ranges, outcome)
        return plan, rows, facts

    def _has_void(self, rows: pa.Table, facts: Facts) -> bool:
        """Return whether what was written before a truncate comes after it, on another partition."""
        truncated = self._ledger.reached.truncated
        return bool(facts.events) and truncated is not None and pc.min(rows["_lsn"]).as_py() <= truncated

    def _ran(self, plan: _Plan, ranges: Ranges, outcome: TopicOutcome) -> pa.Table | None:
        """Run a plan; None: it failed, and for a minute all is brought the usual way."""
        try:
            with outcome.stage("fold"):
                return plan.plan.run(self._topic.ask(ranges))
        except (JavaRaised, PySparkException) as error:
            outcome.plan_failed = one_line(error)
            self._not_before = time.monotonic() + FAILED_SECONDS
            return None

    def warm(self, session: SparkSession) -> None:
        """Make the plan, and run it on nothing, so that the first records don't wait for that."""
        table, outcome = self._ledger.table, TopicOutcome(self._topic.name)
        if self._plan is None and table is not None and self.ready:
            plan = self._planned(session, table, outcome)
            if plan is not None:
                self._ran(plan, {}, outcome)

    def _planned(self, session: SparkSession, table: LakeTable, outcome: TopicOutcome) -> _Plan | None:
        if self._plan is None or self._plan.table != table.identity:
            with outcome.stage("plan"):
                self._plan = self._made(session, table)
        return self._plan

    def _made(self, session: SparkSession, table: LakeTable) -> _Plan | None:
        resolved, partitioning = self._resolved, Partitioning.of(table)
        if resolved is None or partitioning is None or not _fits(table, resolved):
            return None
        # Its settings are the plan's, and nobody else's.
        own = self._session = self._session or session.newSession()
        for key, value in PLANNED_ONCE.items():
            own.conf.set(key, value)
        raw = self._topic.prepared(own)
        rows = decode_changes(raw, resolved.schemas, resolved.target, resolved.versions, self._topic.source, CARRIED)
        enforcement = Enforcement(self._contract) if self._contract is not None else None
        empty = TopicBatch(raw, TopicProfile(self._topic.name), {}, 0, own, TopicOutcome(self._topic.name))
        rows, shape = ready_changes(rows, empty, resolved.shape, resolved.keys, enforcement, self._protected)
        schemas = resolved.batch.profile.key_schema_ids
        folded = fold_with_facts(rows, shape, resolved.keys, schemas, self._lacking)
        try:
            plan = PreparedPlan(partitioning.with_values(folded))
        except KeepsState:
            # The next one for the same would keep it as well.
            self._refused = resolved
            return None
        return _Plan(plan, table.identity, shape, resolved.keys, partitioning, self._lacking)
