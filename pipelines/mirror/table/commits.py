"""Commits: a part of a topic's records as one commit of their table: decode → admit → fold → evolve → merge."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.changes.enforce import Enforcement
from pipelines.changes.key_histogram import RecentKeys
from pipelines.changes.prepare import admit_changes, decode_changes
from pipelines.changes.stats import StatsRequest, broken_promises, integer_keys
from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.dead_letters.circuit_breaker import check_share
from pipelines.dead_letters.store import DeadLetters, rejected_records, undecodable_records
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.evolve import key_change as rekey
from pipelines.evolve.applied import applied_schema, is_keyed
from pipelines.evolve.backfill import backfill
from pipelines.evolve.create import create_table
from pipelines.evolve.fit import check_frozen, fit_columns
from pipelines.evolve.key_change import KeyChanged
from pipelines.kafka.expected import verified
from pipelines.kafka.profile import TopicProfile
from pipelines.lake.catalog import Lake
from pipelines.lake.partitioning import LayoutError, apply_layout
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts
from pipelines.ledger.resyncs import Resync
from pipelines.ledger.table_ledger import TableLedger
from pipelines.merge import keyed
from pipelines.merge import keyless as multiset
from pipelines.merge.changes import MergeInput
from pipelines.merge.pruning import key_bounds, stats_request
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import Change, target_schema
from pipelines.schema.policy import apply_policy
from pipelines.schema.versions import TableVersions
from pipelines.sources.base.change_rows import TRUNCATE
from pipelines.sources.debezium import schemas
from pipelines.spark.dataframes import release


class Commits:
    """Of one table. Used by one thread at a time. ``last``: what the last part held."""

    def __init__(
        self,
        topic: Topic,
        rules: Rules,
        letters: DeadLetters,
        parking: WaitingKeys,
        account: TableLedger,
        protected: ProtectedColumns,
    ) -> None:
        self._topic, self._rules, self._letters, self._parking = topic, rules, letters, parking
        self._account, self._protected = account, protected
        self._enforcement = Enforcement(rules.contract) if rules.contract else None
        self._arranged, self._rulers = False, RecentKeys()
        self.last: TopicProfile | None = None

    @property
    def _table(self) -> LakeTable | None:
        return self._account.table

    def make(self, part: TopicBatch, resync: Resync | None) -> None:
        """Bring ``part``, which lies beyond the ledger, into the table; ``resync``: the newest one of the topic. Raises
        KeyChanged where the schema log has news that come first, and StopPipeline where the table can't follow its
        source.
        """
        found = self._topic.look_up(part.seen)
        if found.shape is None:
            self._reject_all(part, found)
            return
        versions = part.versions or self._versions(part.seen, found)
        has = applied_schema(self._table, versions) if self._table else None
        keys = found.keys if found.keys is not None else has.keys if has else ()
        if part.versions is not None:
            # What it is keyed by here, whatever the connector knew of the key when it sent these.
            keys = has.keys if has else part.versions.versions[-1].key
        wanted = apply_policy(has, target_schema(found.shape, keys, versions, has), self._rules.policy)
        if self._table is not None:
            check_frozen(self._table, wanted)
        shape, keys = replace(found.shape, columns=wanted.columns), wanted.keys
        self._protected.check(shape.columns, keys)
        with part.outcome.stage("decode"):
            raw, held = verified(part.raw, part.seen)
            rows = decode_changes(raw, found, wanted, versions, self._topic.placeholder)
            waiting, kept = self._parking.of(self._topic.name), self._protected.shape(shape)
            whole = integer_keys(kept, keys)
            ask = stats_request(part, shape, keys, self._table, self._rulers.ruler(whole))
            rows, facts = admit_changes(rows, part, shape, keys, waiting, ask, self._enforcement, self._protected)
            seen = held()
        if seen is None:
            release(rows)
            self.make(self._topic.looked_at(part), resync)
            return
        self._rulers.note(whole, key_bounds(facts, kept, keys))
        part.outcome.rows += seen.rows - part.seen.rows
        part.outcome.assumed |= part.seen.assumed
        part = replace(part, seen=seen)
        wider = None if part.whole else self._topic.wider(part, self._account.known, facts, keys)
        if wider is not None:
            release(rows)
            self.make(wider, resync)
            return
        try:
            part.outcome.oldest_commit = facts.oldest
            letters = [rejected_records(part.raw, rows.where(F.col("problem").isNotNull()))] if facts.dead else []
            # A truncate tells nothing of the key, and takes nothing from a table that isn't there.
            if facts.live or (facts.truncated is not None and self._table is not None):
                fit = partial(fit_columns, wanted=wanted, versions=versions, shape=found.shape,
                              protected=self._protected)  # fmt: skip
                self._merge(self._mergeable(part, rows, shape, keys, facts, ask, resync, fit), letters)
            else:
                self._bury(part, letters)
                counts = Counts(dead_lettered=facts.dead, tombstones=part.seen.tombstones, truncates=facts.truncates)
                self._account.enter(part, counts, truncated_lsn=facts.truncated, broken=broken_promises(facts))
        finally:
            release(rows)
        self.last = seen

    def _versions(self, seen: TopicProfile, found: schemas.Schemas) -> TableVersions:
        """What the schema log says of records. Raises KeyChanged."""
        assert found.shape is not None
        if seen.unkeyed and self._table is not None and is_keyed(self._table):
            self._topic.catch_up()
        versions = self._topic.explained(seen, found.shape)
        if rekey.has_news(versions, self._account.followed):
            raise KeyChanged
        return versions

    def _mergeable(
        self, part: TopicBatch, rows: DataFrame, shape: TableShape, keys: tuple[str, ...], facts: Row,
        ask: StatsRequest, resync: Resync | None, fit: Callable[[Lake, LakeTable], list[Change]],
    ) -> MergeInput:  # fmt: skip
        """The good ones of ``rows``, for a table that exists and has their columns."""
        good = rows.where(F.col("problem").isNull() & (F.col("op") != TRUNCATE))
        before = self._account.reached.truncated_lsn
        cleared = facts.truncated if (facts.truncated or 0) > (before or 0) else None
        bound = before if cleared is None else cleared
        settled = bound is None and not facts.replayed
        if bound is not None:
            good = good.where(F.col("lsn") > bound)
        with part.outcome.stage("evolve"):
            lake, created = Lake(part.session), self._table is None
            table = self._account.table = self._table or self._create(lake, shape, keys)
            shape = self._protected.shape(shape)
            changed = fit(lake, table)
            part.outcome.schema_changes += [str(change) for change in changed]
            self._arrange(lake, table, part.outcome, again=created or bool(changed))
            backfill(part.session, table)
        known = self._account.known
        resynced_from = resync.start if resync is not None and resync.runs(known) else {}
        return MergeInput(part, good, shape, keys, facts, ask, table, cleared, known, resynced_from, settled)

    def _create(self, lake: Lake, shape: TableShape, keys: tuple[str, ...]) -> LakeTable:
        table = create_table(lake, self._rules.source, shape, keys, self._protected)
        return table if self._rules.audit is None else self._rules.audit.begin(table)

    def _arrange(self, lake: Lake, table: LakeTable, outcome: TopicOutcome, again: bool) -> None:
        """Once, and whenever the columns change. A layout that can't be had is told, and keeps nobody from merging."""
        if self._arranged and not again:
            return
        self._arranged = True
        try:
            outcome.layout += apply_layout(lake.jvm, table, self._rules.layout)
        except LayoutError as error:
            outcome.layout_refused = str(error)

    def _merge(self, changes: MergeInput, letters: Sequence[DataFrame]) -> None:
        prepared = keyed.ready if changes.keys else multiset.ready
        with prepared(changes) as ready:
            self._bury(changes.part, [*letters, *ready.letters])
            self._account.enter(
                changes.part, ready.counts, ready.write, changes.truncated_lsn, broken_promises(changes.facts)
            )

    def _reject_all(self, part: TopicBatch, found: schemas.Schemas) -> None:
        dead = part.seen.rows - part.seen.tombstones
        self._bury(part, [undecodable_records(part.raw, found.rejected)] if dead else [])
        self._account.enter(part, Counts(dead_lettered=dead, tombstones=part.seen.tombstones))

    def _bury(self, part: TopicBatch, letters: Sequence[DataFrame]) -> None:
        """Keep the part's dead letters, before the commit that counts them."""
        if not letters:
            return
        topic = self._topic.name
        with part.outcome.stage("dead_letters"):
            every = reduce(DataFrame.unionByName, letters)
            check_share(every, topic, part.seen.rows, self._rules.dead_share, self._parking.accepted(topic))
            self._letters.write(self._protected.sealed(every), topic, part.batch, part.seen.ranges)
