"""Commit a few records to a table by a plan that is made once, straight from Kafka to the table's files.

The usual way (:mod:`pipelines.mirror.table.commits`) looks at what has come, and plans each step for it anew. What it
has found out of a table, its columns and schemas, stays so for long; a plan is made of that, for records that need no
more. Whatever else is among them, or has changed meanwhile, sends the batch the usual way, with nothing done.
"""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from pipelines.changes.enforce import Enforcement
from pipelines.changes.prepare import decode_changes, ready_changes
from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.errors import JavaRaised
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.ledger.table_ledger import TableLedger
from pipelines.merge.direct import DirectWrite
from pipelines.merge.prepared import CARRIED, Facts, facts_of, fold_with_facts
from pipelines.mirror.table.resolved import ResolvedBatch
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.spark.prepared import PLANNED_ONCE, KeepsState, PreparedPlan
from quality.contract import Contract


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
        self, topic: Topic, ledger: TableLedger, protected: ProtectedColumns, contract: Contract | None
    ) -> None:
        self._topic, self._ledger, self._protected, self._contract = topic, ledger, protected, contract
        self._resolved: ResolvedBatch | None = None
        self._plan: _Plan | None = None
        self._session: SparkSession | None = None
        # Events of the table have been met that lack unchanged values.
        self._lacking = False

    def learn(self, resolved: ResolvedBatch) -> None:
        """Note what the usual way has found out of a batch that it has committed."""
        if self._resolved is None or not resolved.same_schema(self._resolved):
            self._resolved, self._plan = resolved, None

    def forget(self) -> None:
        """Forget what was found out."""
        self._resolved = self._plan = None

    @property
    def ready(self) -> bool:
        """Whether records can be brought in so, as far as is known of the table."""
        resolved, table = self._resolved, self._ledger.table
        return (
            resolved is not None
            and table is not None
            and bool(resolved.keys)
            and len(resolved.schemas.written) == 1
            and not resolved.schemas.rejected
            and resolved.batch.profile.key_schema_ids != set()
            and resolved.versions == self._topic.versions()
        )

    def make(
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
        try:
            with outcome.stage("fold"):
                rows = plan.plan.run(self._topic.ask(ranges))
        except JavaRaised:
            # Whatever it is, the usual way meets it as well, and says what it is.
            return None
        facts = facts_of(rows)
        if facts.odd:
            return None
        if facts.incomplete and not plan.has_unavailable:
            # Where one event lacks a value, later ones do as well.
            self._lacking, self._plan = True, None
            return self._folded(session, table, ranges, outcome)
        return plan, rows, facts

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
            self._resolved = None
            return None
        return _Plan(plan, table.identity, shape, resolved.keys, partitioning, self._lacking)
