"""One table's share of a batch: which of its topic's records are due, by its ledger, in parts that are a commit each
(see :mod:`pipelines.mirror.table.commits`).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome, cached, coalesced
from pipelines.dead_letters.store import DeadLetters
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.evolve import key_change as rekey
from pipelines.evolve.applied import applied_schema
from pipelines.evolve.backfill import backfill
from pipelines.evolve.describe import describe
from pipelines.evolve.fit import check_frozen, fit_columns
from pipelines.evolve.key_change import KeyChanged
from pipelines.evolve.reprotect import Reprotection
from pipelines.kafka.expected import EXPECTED_OFFSETS, expected_profile
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Positions, Ranges, non_empty, offset_count
from pipelines.kafka.read import within
from pipelines.lake.catalog import Lake
from pipelines.lake.clock import check_clock
from pipelines.lake.names import lake_namespace
from pipelines.lake.table import LakeTable
from pipelines.ledger.resyncs import Resync, Resyncs, check_lost, check_partitions, remove_stale
from pipelines.ledger.table_ledger import TableLedger
from pipelines.mirror.table.audit import audited
from pipelines.mirror.table.commits import Commits
from pipelines.mirror.table.key_changes import KeyChanges
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.plan import target_schema
from pipelines.schema.policy import apply_policy


class TableMirror:
    """Mirrors one topic into one table. Used by one thread at a time."""

    def __init__(
        self, topic: Topic, rules: Rules, letters: DeadLetters, parking: WaitingKeys, resyncs: Resyncs
    ) -> None:
        self._topic, self._rules = topic, rules
        self._resyncs = resyncs
        self._account = TableLedger(rules.pipeline)
        self._protected = ProtectedColumns(rules.contract, rules.vault)
        self._reprotect = Reprotection(self._protected, rules.policy)
        self._key_changes = KeyChanges(topic, self._account, rules.policy, self._reread, self._look, self._protected)
        self._commits = Commits(topic, rules, letters, parking, self._account, self._protected)
        # The topic's, as it was when the batch began.
        self._resync: Resync | None = None
        # The schema of the table that has the contract's words.
        self._described: tuple[str, int] | None = None

    @property
    def _table(self) -> LakeTable | None:
        return self._account.table

    def awaits(self) -> bool:
        """Whether a resync has something left to do here, even if no record comes."""
        resync = self._resyncs.of(self._topic.name)
        return resync is not None and self._table is not None and resync.awaited_by(self._account.known)

    def positions(self, session: SparkSession) -> dict[int, int]:
        """Partition to the offset below which everything is in the table as it is now."""
        self._look(session)
        return dict(self._account.known.positions)

    @property
    def reached(self) -> Positions | None:
        """The same, without looking again, and what was read beyond it; None: that isn't known."""
        return self._account.reached.positions if self._account.known.positions else None

    def from_here(self, planned: Ranges) -> Ranges:
        """``planned`` from where the table is, if it is known to lack what comes before it and that can be read with
        it: Kafka holds it, and it is no more than a batch may bring. Raises RetryBatch.
        """
        missing = self._account.reached.skipped(planned) if self._account.known.positions else {}
        if not missing or not self._topic.fits(missing, offset_count(planned)) or self._topic.lost(missing):
            return planned
        return {partition: (missing.get(partition, span)[0], span[1]) for partition, span in planned.items()}

    def pass_over(self, planned: Ranges) -> None:
        """Note that a batch held no record of the topic, only offsets without one."""
        self._account.pass_over(planned)

    def expects(self, planned: Ranges) -> TopicProfile | None:
        """What ``planned`` holds if it goes on as it was; None: it isn't many records, or not what comes next."""
        ranges = non_empty(planned)
        many = offset_count(ranges) > EXPECTED_OFFSETS
        return expected_profile(self._commits.last, ranges) if many and self._is_next(ranges) else None

    def _is_next(self, ranges: Ranges) -> bool:
        reached = self._account.reached
        return reached.pending(ranges) == ranges and not reached.skipped(ranges)

    @property
    def source_table(self) -> tuple[str, str]:
        """The source's schema and table."""
        return self._topic.table

    @property
    def lake_name(self) -> str:
        """``namespace.table`` of the lake."""
        schema, name = self._topic.table
        return f"{lake_namespace(self._rules.source, schema)}.{name}"

    @contextmanager
    def between_batches(self, session: SparkSession) -> Iterator[TableLedger]:
        """The table's account as it is now, for commits that change no row."""
        self._look(session)
        try:
            yield self._account
        except BaseException:
            self._account.forget()
            raise

    def mirror(self, planned: TopicBatch, schema_changed: bool = False) -> TopicOutcome:
        """Bring a batch's part of the topic into the table. What the ledger already holds is skipped, and what lies
        between the ledger and the batch is read from Kafka first: its last part into the batch's commit, if it fits,
        and whatever is before that in commits of its own.

        ``planned.offsets``: the batch's offset range of every partition of the topic. ``schema_changed``: the schema
        log has news of the table, which it follows even if no row has come since. Raises StopPipeline where Kafka
        doesn't hold what the table lacks, or the table can't follow the source's schema.
        """
        outcome, self._resync = planned.outcome, self._resyncs.of(self._topic.name)
        try:
            with audited(self._rules.audit, self._account, partial(self._look, planned.session), outcome):
                self._mirror_all(planned, schema_changed)
        except BaseException:
            self._account.forget()
            raise
        return outcome

    def _mirror_all(self, planned: TopicBatch, schema_changed: bool) -> None:
        outcome = planned.outcome
        with outcome.stage("ledger"):
            self._begin(planned)
        brought = False
        while not brought:
            # Each time the schema log has told of more.
            with suppress(KeyChanged):
                self._bring(planned)
                brought = True
        if schema_changed and self._table is not None:
            with outcome.stage("evolve"):
                self._follow(self._table, planned)
        if self._table is not None and self._resync is not None and self._resync.ends(self._account.reached):
            with outcome.stage("resync"):
                outcome.swept = remove_stale(planned.session, self._table, self._resync)
                self._account.enter_state(replace(self._account.reached, resynced=outcome.swept), planned.batch)
        if self._table is not None:
            self._describe(self._table, outcome)

    def _look(self, session: SparkSession) -> None:
        schema, name = self._topic.table
        self._account.look(Lake(session), lake_namespace(self._rules.source, schema), name)

    def _begin(self, planned: TopicBatch) -> None:
        """See how far the table is, and whether it can go on from there. Raises StopPipeline."""
        account, topic = self._account, self._topic
        self._look(planned.session)
        if self._table is not None:
            check_clock(self._table)
            backfill(planned.session, self._table)
            planned.outcome.schema_changes += self._reprotect.settle(
                Lake(planned.session), self._table, topic.versions(), self._resync, account.known
            )
        account.partitions = check_partitions(topic.name, account.known, len(planned.offsets), self._resync)
        lost = topic.lost(account.reached.skipped(planned.offsets))
        if lost:
            check_lost(topic.name, lost, self._resync)
            account.give_up(lost, planned.batch)

    def _bring(self, planned: TopicBatch) -> None:
        """The table up to ``planned``, from wherever it is."""
        self._key_changes.follow(planned, self._resync)
        missing = self._account.reached.skipped(planned.offsets)
        if planned.seen.assumed and (missing or not self._is_next(planned.seen.ranges)):
            planned = self._topic.looked_at(planned)
        skipped = list(self._topic.read(planned.session, missing))
        together = skipped.pop() if skipped and self._topic.fits(skipped[-1][0], planned.seen.rows) else None
        for ranges, records in skipped:
            self._reread(replace(planned, raw=records, offsets=ranges))
        if together is None:
            self._take(planned)
        else:
            self._take_with(planned, *together)

    def _take_with(self, planned: TopicBatch, skipped: Ranges, records: DataFrame) -> None:
        """Take ``planned`` and what comes right before it as one part."""
        offsets = offset_count(skipped)
        with cached(coalesced(records.select(planned.raw.columns), offsets), offsets) as before:
            seen = self._topic.profile(before)
            planned.outcome.reread += seen.rows
            ends = {partition: end for partition, (_, end) in planned.offsets.items()}
            reached = self._account.reached.up_to(ends)
            raw = coalesced(before.unionByName(planned.raw), seen.rows + planned.seen.rows)
            self._take(replace(planned, raw=raw, seen=seen + planned.seen, offsets=reached))

    def _reread(self, part: TopicBatch) -> None:
        with cached(part.raw, offset_count(part.offsets)) as records:
            seen = self._topic.profile(records)
            part.outcome.reread += seen.rows
            self._take(replace(part, raw=records, seen=seen))
        self._look(part.session)

    def _follow(self, table: LakeTable, planned: TopicBatch) -> None:
        versions = self._topic.versions()
        if rekey.has_news(versions, self._account.followed):
            # Another table's thread read it since. It is news of the next batch, which begins with it.
            return
        has = applied_schema(table, versions)
        wanted = apply_policy(has, target_schema(None, (), versions, has), self._rules.policy)
        check_frozen(table, wanted)
        if wanted.version is None:
            return
        self._protected.check(wanted.columns, wanted.keys)
        done = fit_columns(Lake(planned.session), table, wanted, versions, None, self._protected)
        planned.outcome.schema_changes += [str(change) for change in done]
        backfill(planned.session, table)

    def _take(self, part: TopicBatch) -> None:
        """Take all of ``part``, in two steps where a resync begins among it."""
        resync = self._resync
        if resync is None or self._table is None or self._account.known.resync == resync.id:
            self._take_part(part)
            return
        part = self._topic.looked_at(part) if part.seen.assumed else part
        first, rest = resync.split(part.offsets)
        if first:
            self._take_part(self._cut(part, first) if rest else part)
        if self._account.reached.reaches(resync.start):
            self._account.enter_state(resync.begun(self._account.reached), part.batch)
        if rest:
            self._take_part(self._cut(part, rest) if first else part)

    def _cut(self, part: TopicBatch, ranges: Ranges) -> TopicBatch:
        raw = part.raw.where(within(ranges))
        return replace(part, raw=raw, seen=self._topic.profile(raw), offsets=ranges)

    def _take_part(self, part: TopicBatch) -> None:
        reached, seen = self._account.reached, part.seen
        pending = reached.pending(seen.ranges)
        if pending != seen.ranges:
            raw = part.raw.where(within(pending))
            seen = self._topic.profile(raw) if pending else TopicProfile(self._topic.name)
            part.outcome.skipped += part.seen.rows - seen.rows
            part = replace(part, raw=raw, seen=seen)
        ends = reached.after(part.offsets).positions
        if seen.rows:
            self._commits.make(replace(part, offsets=self._account.known.up_to(ends)), self._resync)
        self._account.read_through(part.offsets)

    def _describe(self, table: LakeTable, outcome: TopicOutcome) -> None:
        """Once, and whenever the columns change."""
        if self._described == table.identity:
            return
        with outcome.stage("describe"):
            outcome.described += describe(table, self._rules.contract)
        self._described = table.identity
