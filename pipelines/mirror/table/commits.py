"""Make one batch of a topic's records one commit of their table.

The way is straight: resolve the schema, prepare the rows and measure them, evolve the table, choose how to write, keep
the dead letters, commit with the ledger. Each step hands on one frozen value. A step that needs something first returns
that it does (:mod:`pipelines.mirror.table.needs`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.changes.enforce import Enforcement
from pipelines.changes.key_histogram import RecentKeys
from pipelines.changes.prepare import admit_changes, decode_changes
from pipelines.changes.stats import BatchStats, StatsRequest, integer_keys
from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.dead_letters.circuit_breaker import check_share
from pipelines.dead_letters.store import rejected_records, undecodable_records
from pipelines.errors import StopPipeline
from pipelines.evolve.applied import applied_schema, is_keyed
from pipelines.evolve.backfill import backfill
from pipelines.evolve.create import create_table
from pipelines.evolve.fit import check_frozen, fit_columns
from pipelines.evolve.key_change import has_news
from pipelines.kafka.expected import verified
from pipelines.kafka.profile import TopicProfile
from pipelines.lake.catalog import Lake
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.partitioning import LayoutError, apply_layout
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts
from pipelines.ledger.resyncs import Resync, replaces_rows
from pipelines.ledger.table_ledger import TableLedger
from pipelines.merge import strategy
from pipelines.merge.changes import MergeInput, PreparedWrite
from pipelines.merge.pruning import stats_request
from pipelines.mirror.table.needs import FreshLook, Needs, SchemaNews
from pipelines.mirror.table.ports import LetterStore, WaitingLookup
from pipelines.mirror.table.prepared import PreparedCommits
from pipelines.mirror.table.resolved import ResolvedBatch
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import target_schema
from pipelines.schema.policy import apply_policy
from pipelines.sources.base.change_rows import TRUNCATE
from pipelines.sources.base.source import Schemas
from pipelines.spark.dataframes import release


@dataclass(frozen=True)
class MeasuredBatch:
    """A resolved batch's change rows, persisted, and what they amount to.

    ``profile``: what the batch holds; None: not what was expected of it.
    """

    resolved: ResolvedBatch
    rows: DataFrame
    stats: BatchStats
    request: StatsRequest
    profile: TopicProfile | None


class Commits:
    """The commits of one table. Used by one thread at a time.

    ``last``: what the last batch held; ``prepared``: the commits that need no look at what has come.
    """

    def __init__(
        self,
        topic: Topic,
        rules: Rules,
        letters: LetterStore,
        waiting: WaitingLookup,
        ledger: TableLedger,
        protected: ProtectedColumns,
    ) -> None:
        self._topic, self._rules, self._letters, self._waiting = topic, rules, letters, waiting
        self._ledger, self._protected = ledger, protected
        self._enforcement = Enforcement(rules.contract) if rules.contract else None
        self._layout_applied, self._recent_keys = False, RecentKeys()
        self.last: TopicProfile | None = None
        self._live: LiveRows | None = None
        self.prepared = PreparedCommits(topic, ledger, protected, rules.contract, rules.limits, waiting)

    def make(self, batch: TopicBatch, resync: Resync | None) -> Needs | None:
        """Bring ``batch``, which lies beyond the ledger, into the table; or return what it needs first.

        ``resync``: the newest one of the topic. Raises StopPipeline where the table can't follow its source.
        """
        schemas = self._topic.schemas(batch.profile)
        if schemas.shape is None:
            self._reject_all(batch, schemas)
            return None
        resolved = self._resolve(batch, schemas, schemas.shape)
        if isinstance(resolved, SchemaNews):
            return resolved
        with self._measured(resolved) as measured:
            if measured.profile is None:
                return FreshLook()
            batch = self._note(measured, measured.profile)
            if needs := self._topic.missing_records(batch, self._ledger.known, measured.stats, resolved.keys):
                return needs
            self._commit(replace(measured, resolved=replace(resolved, batch=batch)), resync)
        self.last = measured.profile
        if batch.versions is None:
            self.prepared.learn(replace(resolved, batch=batch))
        return None

    def foresee(self, batch: TopicBatch, make: bool) -> LakeTable | None:
        """Find out what the table shall have for records by the topic's newest schemas, before there are any.

        ``make``: a table that isn't there is made so. Returns the table that was made.
        """
        table = self._ledger.table
        profile = self._topic.source.newest_schemas(self._topic.name) if table is not None or make else None
        schemas = self._topic.schemas(profile) if profile is not None else None
        if profile is None or schemas is None or schemas.shape is None:
            return None
        # What can't be followed is told when a record needs it.
        with suppress(StopPipeline):
            resolved = self._resolve(replace(batch, profile=profile), schemas, schemas.shape)
            if isinstance(resolved, ResolvedBatch) and resolved.keys:
                if table is None:
                    self._fit(resolved, batch.outcome, resyncing=False)
                self.prepared.learn(resolved)
        return self._ledger.table if table is None else None

    def _resolve(self, batch: TopicBatch, schemas: Schemas, shape: TableShape) -> ResolvedBatch | SchemaNews:
        """Find out which columns and which key the table shall have for these records."""
        table = self._ledger.table
        if batch.versions is not None:
            versions = batch.versions
        else:
            if batch.profile.unkeyed and table is not None and is_keyed(table):
                self._topic.catch_up()
            versions = self._topic.explained(batch.profile, shape)
            if has_news(versions, self._ledger.followed):
                return SchemaNews()
        has = applied_schema(table, versions) if table else None
        # A connector that met a table before its key was to be seen sends records without one.
        known = has.keys if has else versions.newest.key if versions.newest else ()
        keys = known if schemas.keys is None else schemas.keys
        if batch.versions is not None:
            # What it is keyed by here, whatever the connector knew of the key when it sent these.
            keys = has.keys if has else versions.versions[-1].key
        if versions.newest is not None and versions.newest.by_rows:
            keys = ()
        target = apply_policy(has, target_schema(shape, keys, versions, has), self._rules.policy)
        if table is not None:
            check_frozen(table, target)
        shape = replace(shape, columns=target.columns)
        self._protected.check(shape.columns, target.keys)
        return ResolvedBatch(batch, schemas, versions, target, shape, self._protected.shape(shape), target.keys)

    @contextmanager
    def _measured(self, resolved: ResolvedBatch) -> Iterator[MeasuredBatch]:
        """Decode, admit and protect a batch's rows, and measure them; they are persisted within the block."""
        batch, shape, keys = resolved.batch, resolved.shape, resolved.keys
        with batch.outcome.stage("decode"):
            raw, confirm = verified(batch.raw, batch.profile)
            rows = decode_changes(raw, resolved.schemas, resolved.target, resolved.versions, self._topic.source)
            histogram = self._recent_keys.histogram(integer_keys(resolved.lake_shape, keys))
            request = stats_request(batch.profile.rows, shape, keys, self._ledger.table, histogram, self._rules.limits)
            waiting = self._waiting.of(self._topic.name)
            rows, stats = admit_changes(rows, batch, shape, keys, waiting, request, self._enforcement, self._protected)
            profile = confirm()
        try:
            yield MeasuredBatch(resolved, rows, stats, request, profile)
        finally:
            release(rows)

    def _note(self, measured: MeasuredBatch, profile: TopicProfile) -> TopicBatch:
        """Note what a batch turned out to hold."""
        resolved, batch = measured.resolved, measured.resolved.batch
        self._recent_keys.note(integer_keys(resolved.lake_shape, resolved.keys), measured.stats.bounds)
        batch.outcome.rows += profile.rows - batch.profile.rows
        batch.outcome.expected |= batch.profile.expected
        return replace(batch, profile=profile)

    def _commit(self, measured: MeasuredBatch, resync: Resync | None) -> None:
        """Commit measured rows: evolve the table, choose how to write, keep the dead letters, write with the ledger."""
        batch, stats = measured.resolved.batch, measured.stats
        batch.outcome.oldest_commit = stats.oldest
        letters = []
        if stats.dead:
            letters = [rejected_records(batch.raw, measured.rows.where(F.col("problem").isNotNull()))]
        # A truncate tells nothing of the key, and takes nothing from a table that isn't there.
        if stats.live or (stats.truncated is not None and self._ledger.table is not None):
            changes = self._evolve(measured, resync)
            with strategy.prepare(changes, self._rules.limits) as prepared:
                self._keep_letters(batch, [*letters, *prepared.letters])
                self._commit_entry(batch, prepared.counts, prepared, changes.truncated, stats)
            return
        self._keep_letters(batch, letters)
        counts = Counts(dead_lettered=stats.dead, tombstones=batch.profile.tombstones, truncates=stats.truncates)
        self._commit_entry(batch, counts, None, stats.truncated, stats)

    def _evolve(self, measured: MeasuredBatch, resync: Resync | None) -> MergeInput:
        """Create the table, or give it the columns of the changes; return the good rows, for that table."""
        resolved, stats, rows = measured.resolved, measured.stats, measured.rows
        batch = resolved.batch
        before = self._ledger.reached.truncated
        truncated = stats.truncated if (stats.truncated or 0) > (before or 0) else None
        bound = before if truncated is None else truncated
        good = rows.where(F.col("problem").isNull() & (F.col("op") != TRUNCATE))
        if bound is not None:
            good = good.where(F.col("log_position") > bound)
        with batch.outcome.stage("evolve"):
            table = self._fit(resolved, batch.outcome, replaces_rows(resync, self._ledger.known))
            backfill(batch.session, table)
        known = self._ledger.known
        return MergeInput(
            batch=batch,
            good=good,
            shape=resolved.lake_shape,
            keys=resolved.keys,
            stats=stats,
            request=measured.request,
            table=table,
            truncated=truncated,
            known=known,
            resynced_from=resync.start if resync is not None and resync.runs(known) else {},
            complete=bound is None and not stats.replayed,
            live=self.live_rows(batch.session),
        )

    def _fit(self, resolved: ResolvedBatch, outcome: TopicOutcome, resyncing: bool) -> LakeTable:
        """Create the table, or give it the columns that it shall have; and its layout."""
        created = self._ledger.table is None
        table = self._ledger.table = self._ledger.table or self._create(resolved)
        changed = fit_columns(
            table, resolved.target, resolved.versions, resolved.schemas.shape, self._protected, resyncing
        )
        outcome.schema_changes += [str(change) for change in changed]
        self._apply_layout(table, outcome, again=created or bool(changed))
        return table

    def live_rows(self, session: SparkSession) -> LiveRows | None:
        """Return what is remembered of the table's rows."""
        if self._live is None and self._rules.budget is not None:
            self._live = LiveRows(Storage.of(session), self._rules.budget)
        return self._live

    def _create(self, resolved: ResolvedBatch) -> LakeTable:
        lake = Lake(resolved.batch.session)
        table = create_table(lake, self._rules.source, resolved.shape, resolved.keys, self._protected)
        return table if self._rules.audit is None else self._rules.audit.begin(table)

    def _apply_layout(self, table: LakeTable, outcome: TopicOutcome, again: bool) -> None:
        """Lay the table out once, and whenever its columns change. One that can't be had keeps nobody from merging."""
        if self._layout_applied and not again:
            return
        self._layout_applied = True
        try:
            outcome.layout += apply_layout(table, self._rules.layout)
        except LayoutError as error:
            outcome.layout_refused = str(error)

    def _reject_all(self, batch: TopicBatch, schemas: Schemas) -> None:
        dead = batch.profile.rows - batch.profile.tombstones
        self._keep_letters(batch, [undecodable_records(batch.raw, schemas.rejected)] if dead else [])
        self._commit_entry(batch, Counts(dead_lettered=dead, tombstones=batch.profile.tombstones))

    def _keep_letters(self, batch: TopicBatch, letters: Sequence[DataFrame]) -> None:
        """Keep the batch's dead letters, before the commit that counts them."""
        if not letters:
            return
        topic = self._topic.name
        with batch.outcome.stage("dead_letters"):
            every = reduce(DataFrame.unionByName, letters)
            check_share(every, topic, batch.profile.rows, self._rules.dead_share, self._waiting.accepted(topic))
            self._letters.write(self._protected.sealed(every), topic, batch.batch, batch.profile.ranges)

    def _commit_entry(
        self,
        batch: TopicBatch,
        counts: Counts,
        prepared: PreparedWrite | None = None,
        truncated: int | None = None,
        stats: BatchStats | None = None,
    ) -> None:
        """Commit the batch's entry in the table's ledger, with its data if any, and note what became of it."""
        broken = stats.broken if stats is not None else {}
        batch.outcome.note(counts, broken)
        with batch.outcome.stage("merge"):
            write = prepared.write if prepared is not None else None
            self._ledger.commit(batch.batch, batch.offsets, counts, write, truncated, broken)
        batch.outcome.committed |= prepared is not None
        if prepared is not None:
            batch.outcome.writers[prepared.writer] += 1
