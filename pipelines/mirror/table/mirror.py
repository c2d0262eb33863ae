"""Mirror one table's share of a batch: which of its topic's records are due, by its ledger, a commit each.

See :mod:`pipelines.mirror.table.commits` for the commit itself.
"""

from contextlib import AbstractContextManager, closing
from dataclasses import replace

from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.checks.audit import audited
from pipelines.evolve.applied import applied_schema
from pipelines.evolve.backfill import backfill
from pipelines.evolve.describe import Description
from pipelines.evolve.fit import check_frozen, fit_columns
from pipelines.evolve.key_change import has_news
from pipelines.evolve.reprotect import Reprotection
from pipelines.kafka.expected import expected_profile
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Positions, Ranges, non_empty, offset_count
from pipelines.kafka.read import within
from pipelines.lake.catalog import Lake
from pipelines.lake.clock import check_clock
from pipelines.lake.names import lake_namespace
from pipelines.lake.row_delta import Moved
from pipelines.lake.table import LakeTable
from pipelines.ledger.resyncs import Resync, check_lost, check_partitions, remove_stale, replaces_rows
from pipelines.ledger.table_ledger import TableLedger
from pipelines.mirror.table.commits import Commits
from pipelines.mirror.table.due import DueBatches
from pipelines.mirror.table.key_changes import KeyChanges
from pipelines.mirror.table.needs import FreshLook, SchemaNews
from pipelines.mirror.table.ports import LetterStore, ResyncLookup, WaitingLookup
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.plan import target_schema
from pipelines.schema.policy import apply_policy


class TableMirror:
    """Mirrors one topic into one table. Used by one thread at a time."""

    def __init__(
        self, topic: Topic, rules: Rules, letters: LetterStore, waiting: WaitingLookup, resyncs: ResyncLookup
    ) -> None:
        self._topic, self._rules, self._resyncs = topic, rules, resyncs
        self._check = topic.check("lakehouse resync --all", letters.void)
        schema, name = topic.table
        self._ledger = TableLedger(rules.pipeline, lake_namespace(rules.source, schema), name)
        self._protected = ProtectedColumns(rules.contract, rules.vault)
        self._reprotection = Reprotection(self._protected, rules.policy)
        key_changes = KeyChanges(topic, self._ledger, rules.policy, self._protected)
        self._due = DueBatches(topic, self._ledger, key_changes, rules.limits)
        self._commits = Commits(topic, rules, letters, waiting, self._ledger, self._protected)
        self._resync: Resync | None = None  # The topic's, as it was when the batch began.
        self._description = Description(rules.contract)
        self._stale = False  # Something else than the ledger may have committed to the table: upkeep, or a MERGE.

    @property
    def source_table(self) -> tuple[str, str]:
        """The source's schema and table."""
        return self._topic.table

    @property
    def lake_name(self) -> str:
        """``namespace.table`` of the lake."""
        return f"{self._ledger.namespace}.{self._ledger.name}"

    @property
    def is_gone(self) -> bool:
        """Whether the source has no such table any more, as far as the schema log was read."""
        return self._topic.versions().gone

    @property
    def is_left_out(self) -> bool:
        """Whether it can't be mirrored under its names. Some of its records may have come before it was left out."""
        newest = self._topic.versions().newest
        return newest is not None and not self._topic.source.can_name(self._topic.table, newest)

    def awaits(self) -> bool:
        """Return whether a resync has something left to do here, even if no record comes."""
        resync = self._resyncs.of(self._topic.name)
        return resync is not None and self._ledger.table is not None and resync.awaited_by(self._ledger.known)

    def positions(self, session: SparkSession) -> dict[int, int]:
        """Return partition to the offset below which everything is in the table as it is now."""
        self._ledger.load(Lake(session))
        return dict(self._ledger.known.positions)

    @property
    def reached(self) -> Positions | None:
        """The positions of the table, without looking again, with what was read beyond it; None: they aren't known."""
        return self._ledger.reached.positions if self._ledger.known.positions else None

    def from_ledger(self, planned: Ranges) -> Ranges:
        """Return ``planned`` from where the table is, if it lacks what comes before it and that can be read with it.

        Then Kafka holds it, and it is no more than a batch may bring. Raises RetryBatch.
        """
        missing = self._ledger.reached.skipped(planned) if self._ledger.known.positions else {}
        if not missing or not self._topic.fits(missing, offset_count(planned)) or self._topic.lost(missing):
            return planned
        return {partition: (missing.get(partition, span)[0], span[1]) for partition, span in planned.items()}

    def lacks(self, planned: Ranges) -> bool:
        """Return whether offsets that come before ``planned`` haven't been read, of a table that was looked at."""
        return bool(self._ledger.reached.skipped(planned))

    def pass_over(self, planned: Ranges) -> None:
        """Note that a batch held no record of the topic, only offsets without one."""
        self._ledger.pass_over(planned)

    def expects(self, planned: Ranges) -> TopicProfile | None:
        """Return what ``planned`` holds if it goes on as it was; None: it is few records, or not what comes next."""
        ranges = non_empty(planned)
        many = offset_count(ranges) > self._rules.limits.expected_offsets
        return expected_profile(self._commits.last, ranges) if many and self._ledger.is_next(ranges) else None

    def between_batches(self, session: SparkSession) -> AbstractContextManager[TableLedger]:
        """Give the table's ledger as it is now, for commits that change no row."""
        self._stale = True
        return self._ledger.as_it_is(Lake(session))

    def mirror(self, planned: TopicBatch, schema_changed: bool = False) -> TopicOutcome:
        """Bring a batch's records of the topic into the table.

        What the ledger already has is skipped, and what lies between the ledger and the batch is read from Kafka first:
        its last part into the batch's commit, if it fits, and whatever is before that in commits of its own.

        ``planned.offsets``: the batch's offset range of every partition of the topic. ``schema_changed``: the schema
        log has news of the table, which it follows even if no row has come since. Raises StopPipeline where Kafka
        doesn't hold what the table lacks, or the table can't follow the source's schema.
        """
        outcome, self._resync = planned.outcome, self._resyncs.of(self._topic.name)
        self._stale = True
        try:
            with audited(self._rules.audit, self._ledger, Lake(planned.session), outcome.stage):
                with outcome.stage("ledger"):
                    self._begin(planned)
                while not self._bring(planned):
                    # The schema log has told of more, which comes first.
                    pass
                if self._ledger.table is not None:
                    self._finish(self._ledger.table, planned, schema_changed)
        except BaseException:
            self._ledger.forget()
            self._check.forget()
            raise
        return outcome

    def warm(self, session: SparkSession) -> None:
        """Make ready what its small batches will need."""
        if self._rules.budget is not None and self._rules.audit is None:
            self._commits.prepared.warm(session)

    def opens_plainly(self, planned: Ranges, session: SparkSession) -> bool:
        """Return whether the table is there, or can be made before a record of it is looked at.

        ``planned``: the batch's offset range of every partition, the first that this process meets.
        """
        is_there = Lake(session).table(self._ledger.namespace, self._ledger.name) is not None
        return is_there or (self._can_be_made and self._ledger.goes_on(planned))

    @property
    def _can_be_made(self) -> bool:
        return self._rules.audit is None and self._topic.has_one_version()

    @property
    def is_open(self) -> bool:
        """Whether the table was looked at, and is there."""
        return self._ledger.table is not None

    def open(self, nothing: TopicBatch, schema_changed: bool) -> None:
        """Look at the table, and do whatever comes before its next record: what a new process begins with.

        A table that isn't there is made, if the schema log has had the same columns of it ever since. ``nothing``: a
        batch without records and offsets. ``schema_changed``: as for :meth:`mirror`, which says what is raised.
        """
        self.mirror(nothing, schema_changed)
        made = self._commits.foresee(nothing, self._can_be_made)
        nothing.outcome.described += self._description.write(made) if made is not None else []

    def is_plain(self, planned: Ranges) -> bool:
        """Return whether what is next of the topic may be brought by :meth:`mirror_plainly`, as far as is known."""
        ledger, resync = self._ledger, self._resyncs.of(self._topic.name)
        reached = ledger.reached.positions
        return (
            self._rules.budget is not None
            and self._rules.audit is None
            and ledger.table is not None
            and ledger.goes_on(planned)
            and (resync is None or (ledger.known.resync == resync.id and ledger.known.resynced is not None))
            and self._description.is_written(ledger.table)
            and sum(max(0, end - reached.get(p, 0)) for p, (_, end) in planned.items())
            <= self._rules.limits.plain_offsets
            and self._commits.prepared.ready
        )

    def mirror_plainly(self, planned: Ranges, number: int, session: SparkSession, outcome: TopicOutcome) -> bool:
        """Bring what is next of the topic into the table, from where that is to the topic's present end, in one commit.

        ``planned``: the batch's offset range of every partition, which is the least that is brought. Returns False
        where it must be brought by :meth:`mirror`; nothing was done then.
        """
        ledger = self._ledger
        if self._stale:
            ledger.load(Lake(session))
            self._stale = False
        if ledger.table is None:
            return False
        try:
            return self._commits.prepared.bring(session, planned, self._commits.live_rows(session), outcome, number)
        except Moved:
            ledger.forget()
            return False
        except BaseException:
            ledger.forget()
            raise

    def _begin(self, planned: TopicBatch) -> None:
        """See how far the table is, and whether it can go on from there. Raises StopPipeline."""
        ledger, topic = self._ledger, self._topic
        ledger.load(Lake(planned.session))
        planned.outcome.schema_changes += self._check.make(planned.session, ledger, lambda: self._resync, planned.batch)
        if ledger.table is not None:
            check_clock(ledger.table)
            backfill(planned.session, ledger.table)
            planned.outcome.schema_changes += self._reprotection.apply(
                ledger.table, topic.versions(), self._resync, ledger.known
            )
        ledger.partitions = check_partitions(topic.name, ledger.known, len(planned.offsets), self._resync)
        lost = topic.lost(ledger.reached.skipped(planned.offsets))
        if lost:
            check_lost(topic.name, lost, self._resync)
            ledger.give_up(lost, planned.batch)

    def _bring(self, planned: TopicBatch) -> bool:
        """Bring the table up to ``planned``, from wherever it is, a commit after the other.

        Returns False where the schema log has news that come first: then the rest is due anew.
        """
        with closing(self._due.batches(planned, self._resync)) as due:
            return all(self._commit(batch) for batch in due)

    def _commit(self, batch: TopicBatch) -> bool:
        """Commit what of ``batch`` isn't in the table yet, reading what that turns out to need.

        Returns False where the schema log has news that come first.
        """
        reached, through = self._ledger.reached, batch.offsets
        pending = reached.pending(batch.profile.ranges)
        if pending != batch.profile.ranges:
            raw = batch.raw.where(within(pending))
            profile = self._topic.profile(raw) if pending else TopicProfile(self._topic.name)
            batch.outcome.skipped += batch.profile.rows - profile.rows
            batch = replace(batch, raw=raw, profile=profile)
        if batch.profile.rows:
            batch = replace(batch, offsets=self._ledger.known.up_to(reached.after(through).positions))
            while needs := self._commits.make(batch, self._resync):
                if isinstance(needs, SchemaNews):
                    return False
                if isinstance(needs, FreshLook):
                    batch = self._topic.profile_again(batch)
                else:
                    batch = self._topic.with_records(needs, self._ledger.known)
        self._ledger.read_through(through)
        return True

    def _finish(self, table: LakeTable, planned: TopicBatch, schema_changed: bool) -> None:
        """Do what is left once all records are in the table."""
        outcome = planned.outcome
        if schema_changed:
            with outcome.stage("evolve"):
                self._follow(table, planned)
        if self._resync is not None and self._resync.ends(self._ledger.reached):
            with outcome.stage("resync"):
                outcome.swept = remove_stale(planned.session, table, self._resync)
                self._ledger.commit_state(replace(self._ledger.reached, resynced=outcome.swept), planned.batch)
        if not self._description.is_written(table):
            with outcome.stage("describe"):
                outcome.described += self._description.write(table)

    def _follow(self, table: LakeTable, planned: TopicBatch) -> None:
        """Follow the schema log, though no row has come since."""
        versions = self._topic.versions()
        if has_news(versions, self._ledger.followed):
            # Another table's thread read it since. It is news of the next batch, which begins with it.
            return
        has = applied_schema(table, versions)
        target = apply_policy(has, target_schema(None, (), versions, has), self._rules.policy)
        check_frozen(table, target)
        if target.version is None:
            return
        self._protected.check(target.columns, target.keys)
        resyncing = replaces_rows(self._resync, self._ledger.known)
        done = fit_columns(table, target, versions, None, self._protected, resyncing)
        planned.outcome.schema_changes += [str(change) for change in done]
        backfill(planned.session, table)
