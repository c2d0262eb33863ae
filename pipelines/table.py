"""One table's share of a batch: ledger → decode → admit → fold → evolve → merge."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial, reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipelines import boundary, breaker, evolve, ledger, multiset, rekey, schemas
from pipelines.admit import TRUNCATE
from pipelines.changes import admitted, decoded
from pipelines.deadletters import DeadLetters, rejected, undecodable, within
from pipelines.facts import bounds, folded_count, key_among
from pipelines.failpoints import failpoint
from pipelines.fold import fold, without_outdated
from pipelines.history import TopicHistory
from pipelines.iceberg import Lake, LakeTable
from pipelines.identifiers import quote
from pipelines.inherit import inherit, orphans
from pipelines.merge import MergePlan, append_sql, commit, merge_sql
from pipelines.parking import Parking
from pipelines.part import Outcome, Part
from pipelines.policy import restrained
from pipelines.profile import TopicProfile, profile
from pipelines.registry import SchemaRegistry
from pipelines.rekey import KeyChanged
from pipelines.resyncs import Resync, Resyncs, check_lost, check_partitions, remove_stale
from pipelines.schema_plan import Change, target, version_of
from pipelines.sources.postgres.envelope import TableShape
from pipelines.sources.postgres.schema_log import SchemaLog, TableVersions, Version
from pipelines.spec import SchemaPolicy

FEW_CHANGES = 5_000


class TableMirror:
    """Mirrors one topic into one table. Used by one thread at a time."""

    def __init__(
        self,
        topic: str,
        source: str,
        pipeline: str,
        registry: SchemaRegistry,
        letters: DeadLetters,
        history: TopicHistory,
        schema_log: SchemaLog,
        parking: Parking,
        resyncs: Resyncs,
        placeholder: str,
        dead_share: float = 1.0,
        policy: SchemaPolicy | None = None,
    ) -> None:
        self.topic, self._source, self._pipeline = topic, source, pipeline
        self._registry, self._letters, self._history, self._placeholder = registry, letters, history, placeholder
        self._schema_log, self._parking, self._resyncs = schema_log, parking, resyncs
        self._dead_share = dead_share
        self._policy = policy or SchemaPolicy()
        self._known_ids: set[int] = set()
        self._forget()

    def _forget(self) -> None:
        self._table: LakeTable | None = None
        self._ledger: ledger.Ledger | None = None
        # What this process has read beyond the ledger, and what it found there that no commit has told yet: nothing
        # but markers of transactions, or records of a topic that has no table because none of them can be used.
        self._read: dict[int, int] = {}
        self._untold = ledger.Counts()
        self._partitions = 0
        self._lost: dict[int, tuple[int, int]] = {}

    @property
    def _resync(self) -> Resync | None:
        return self._resyncs.of(self.topic)

    def awaits(self) -> bool:
        """Whether a resync has something left to do here, even if no record comes."""
        return self._resync is not None and self._table is not None and self._resync.awaited_by(self._known())

    def _look_up(self, seen: TopicProfile) -> schemas.Schemas:
        return schemas.look_up(self._registry, seen, self._name)

    @cached_property
    def _name(self) -> tuple[str, str]:
        return self._schema_log.named(self.topic)

    @property
    def _view(self) -> str:
        return "changes_" + "".join(c if c.islower() or c.isdigit() else f"_{ord(c):x}_" for c in self.topic)

    def mirror(
        self,
        batch: DataFrame,
        seen: TopicProfile,
        planned: ledger.Ranges,
        number: int,
        session: SparkSession,
        schema_changed: bool = False,
    ) -> Outcome:
        """Bring the topic's part of ``batch`` into the table. What the ledger already holds is skipped, and what lies
        between the ledger and the batch is read from Kafka first, in commits of its own.

        ``planned``: the batch's offset range of every partition of the topic. ``schema_changed``: the schema log has
        news of the table, which it follows even if no row has come since. Raises StopPipeline where Kafka doesn't hold
        what the table lacks, or the table can't follow the source's schema.
        """
        outcome = Outcome(self.topic, rows=seen.rows)
        raw = batch.where(F.col("topic") == self.topic)
        try:
            with outcome.stage("ledger"):
                self._look(Lake(session))
                if self._table is not None:
                    evolve.backfill(session, self._table)
                self._partitions = check_partitions(self.topic, self._known(), len(planned), self._resync)
                self._give_up_lost(self._reached().skipped(planned), number)
            try:
                self._bring(raw, seen, planned, number, session, outcome)
            except KeyChanged:
                self._bring(raw, seen, planned, number, session, outcome)
            if schema_changed and self._table is not None:
                with outcome.stage("evolve"):
                    self._follow(self._table, session, outcome)
            if self._table is not None and self._resync is not None and self._resync.ends(self._reached()):
                with outcome.stage("resync"):
                    outcome.swept = remove_stale(session, self._table, self._resync)
                    self._commit_state(replace(self._reached(), resynced=outcome.swept), number)
        except BaseException:
            self._forget()
            raise
        return outcome

    def _bring(
        self, raw: DataFrame, seen: TopicProfile, planned: ledger.Ranges, number: int, session: SparkSession,
        outcome: Outcome,
    ) -> None:  # fmt: skip
        """The table up to ``planned``, from wherever it is."""
        self._rekey(number, session, outcome)
        for ranges, records in self._history.read(session, self.topic, self._reached().skipped(planned)):
            self._reread(records, ranges, number, session, outcome)
        self._take(raw, seen, planned, number, session, outcome)

    def _rekey(self, number: int, session: SparkSession, outcome: Outcome) -> None:
        """Follow the changes of the key that the schema log tells of: see :mod:`pipelines.rekey`."""
        versions = self._schema_log.table(*self._name)
        if rekey.is_anothers(self._table, versions):
            self._clear(versions, number, session, outcome)
        for change in rekey.due(self._table, versions):
            before = versions.up_to(change, included=False)
            for ranges, records in self._older(change, session, whole=not before.versions[-1].key):
                self._reread(records, ranges, number, session, outcome, before)
            if self._table is not None:
                with outcome.stage("evolve"):
                    known = versions.up_to(change, included=True)
                    resyncing = self._resync is not None and self._resync.awaited_by(self._known())
                    done = evolve.rekey(Lake(session), session, self._table, known, self._policy, resyncing)
                    outcome.schema_changes += [str(one) for one in done]

    def _clear(self, versions: TableVersions, number: int, session: SparkSession, outcome: Outcome) -> None:
        """Begin again as another table that has the name now: what is older than it is superseded."""
        first = versions.versions[0]
        for ranges, records in self._older(first, session):
            seen = self._profile(records)
            counts = ledger.Counts(superseded=seen.rows - seen.tombstones, tombstones=seen.tombstones)
            self._account(Part(records, seen, ranges, number, session, outcome), counts)
            self._read.update(self._reached().after(ranges).positions)
        if self._table is None:
            return
        # Where whole files go, Iceberg's DELETE leaves out what its commit is told to carry.
        session.sql(f"DELETE FROM {self._table.sql_name} WHERE _lsn < {first.lsn:d}")
        self._commit_state(self._known().after({}, first.lsn), number)
        with outcome.stage("evolve"):
            known = versions.up_to(first, included=True)
            outcome.schema_changes += [
                str(one) for one in evolve.rekey(Lake(session), session, self._table, known, self._policy)
            ]
        self._look(Lake(session))

    def _older(
        self, change: Version, session: SparkSession, whole: bool = False
    ) -> Iterator[tuple[ledger.Ranges, DataFrame]]:
        """What the table lacks of the topic from before ``change``."""
        pending = self._reached().up_to(self._history.ends(self.topic))
        read = partial(self._history.read, session, self.topic)
        ranges = boundary.before(read, self._look_up, self.topic, pending, change.lsn, self._placeholder)
        return self._history.read(session, self.topic, ranges, whole)

    def positions(self, session: SparkSession) -> dict[int, int]:
        """Partition to the offset below which everything is in the table as it is now."""
        self._look(Lake(session))
        return dict(self._known().positions)

    def pass_over(self, planned: ledger.Ranges) -> None:
        """Note that a batch held no record of the topic, only offsets without one."""
        reached = self._reached()
        if self._ledger is not None and not reached.skipped(planned):
            self._read.update(reached.after(planned).positions)

    def _look(self, lake: Lake) -> None:
        """See the table as it is now: somebody may have dropped it or rolled it back."""
        schema, name = self._name
        self._table = lake.table(evolve.lake_namespace(self._source, schema), name)
        found = ledger.read(self._table.summaries()) if self._table else ledger.Ledger()
        if found != self._ledger:
            self._ledger, self._read, self._untold, self._lost = found, {}, ledger.Counts(), {}

    def _profile(self, records: DataFrame) -> TopicProfile:
        return profile(records).get(self.topic, TopicProfile(self.topic))

    def _known(self) -> ledger.Ledger:
        return self._ledger or ledger.Ledger()

    def _reached(self) -> ledger.Ledger:
        return self._known().after({partition: (0, end) for partition, end in self._read.items()})

    def _reread(
        self, records: DataFrame, ranges: ledger.Ranges, number: int, session: SparkSession, outcome: Outcome,
        versions: TableVersions | None = None,
    ) -> None:  # fmt: skip
        records = records.persist()
        try:
            seen = self._profile(records)
            outcome.reread += seen.rows
            self._take(records, seen, ranges, number, session, outcome, versions)
        finally:
            records.unpersist()
        self._look(Lake(session))

    def _take(
        self,
        raw: DataFrame,
        seen: TopicProfile,
        ranges: ledger.Ranges,
        number: int,
        session: SparkSession,
        outcome: Outcome,
        versions: TableVersions | None = None,
    ) -> None:
        """Take ``ranges``, in two steps where a resync begins among them."""
        resync = self._resync
        if resync is None or self._table is None or self._known().resync == resync.id:
            self._take_part(raw, seen, ranges, number, session, outcome, versions)
            return
        first, rest = resync.split(ranges)
        if first and rest:
            before, raw = raw.where(within(first)), raw.where(within(rest))
            self._take_part(before, self._profile(before), first, number, session, outcome, versions)
            seen = self._profile(raw)
        if first and not rest:
            self._take_part(raw, seen, first, number, session, outcome, versions)
        if self._reached().reaches(resync.start):
            self._commit_state(resync.begun(self._reached()), number)
        if rest:
            self._take_part(raw, seen, rest, number, session, outcome, versions)

    def _take_part(
        self,
        raw: DataFrame,
        seen: TopicProfile,
        ranges: ledger.Ranges,
        number: int,
        session: SparkSession,
        outcome: Outcome,
        versions: TableVersions | None,
    ) -> None:
        reached = self._reached()
        pending = reached.pending(seen.ranges)
        if pending != seen.ranges:
            raw = raw.where(within(pending))
            left = self._profile(raw) if pending else TopicProfile(self.topic)
            outcome.skipped += seen.rows - left.rows
            seen = left
        ends = reached.after(ranges).positions
        if seen.rows:
            self._mirror(Part(raw, seen, self._known().up_to(ends), number, session, outcome, versions))
        self._read.update(ends)

    def _mirror(self, part: Part) -> None:
        found = self._look_up(part.seen)
        if found.shape is None:
            self._reject_all(part, found)
            return
        versions = part.versions or self._versions(part.seen, found)
        has = evolve.applied(self._table, versions) if self._table else None
        keys = found.keys if found.keys is not None else has.keys if has else ()
        if part.versions is not None:
            # What it is keyed by here, whatever the connector knew of the key when it sent these.
            keys = has.keys if has else part.versions.versions[-1].key
        wanted = restrained(has, target(found.shape, keys, versions, has), self._policy)
        if self._table is not None:
            evolve.check_frozen(self._table, wanted)
        shape, keys = replace(found.shape, columns=wanted.columns), wanted.keys
        with part.outcome.stage("decode"):
            rows = decoded(part.raw, found, wanted, versions, self._placeholder)
            rows, facts = admitted(rows, part.raw, shape, keys, self._parking.of(self.topic))
        wider = None if part.whole else self._wider(part, facts, keys)
        if wider is not None:
            rows.unpersist()
            self._mirror(wider)
            return
        try:
            part.outcome.oldest_commit = facts.oldest
            letters = []
            if facts.dead:
                letters.append(rejected(part.raw, rows.where(F.col("problem").isNotNull())))
            if facts.live or facts.truncated is not None:
                evolving = partial(evolve.fit, wanted=wanted, versions=versions, shape=found.shape)
                self._merge(part, rows, shape, keys, facts, letters, evolving)
            else:
                self._bury(part, letters)
                counts = ledger.Counts(dead_lettered=facts.dead, tombstones=part.seen.tombstones)
                self._account(part, counts)
        finally:
            rows.unpersist()

    def _wider(self, part: Part, facts: Row, keys: tuple[str, ...]) -> Part | None:
        """``part`` with the records of other partitions without which it can't be merged; None: it lacks nothing.

        Where a row's key changes, every partition is read on to that position, for both halves of the change, the
        delete and the create, of which one has the values that the other left out. Without a key a topic's records have
        no partition of their own: where rows are removed, all that was written before is needed, or a row could be
        removed before its insert, or before a truncate, on another partition was read.
        """
        needed = facts.moved is not None if keys else facts.removals > 0 and part.versions is None
        if not needed:
            return None
        reached, ends = self._known().after(part.offsets), self._history.ends(self.topic)
        missing: ledger.Ranges = reached.up_to(ends)
        read = partial(self._history.read, part.session, self.topic)
        if keys:
            missing = boundary.through(read, self._look_up, self.topic, missing, facts.moved, self._placeholder)
        if not missing or (not keys and len(ends) == 1):
            return None
        more = reduce(DataFrame.unionByName, (records.select(part.raw.columns) for _, records in read(missing)))
        raw = part.raw.unionByName(more)
        seen = profile(raw)[self.topic]
        part.outcome.reread += seen.rows - part.seen.rows
        offsets = self._known().up_to(reached.after(missing).positions)
        # What was read on to may hold halves of its own.
        return replace(part, raw=raw, seen=seen, offsets=offsets, whole=not keys)

    def _versions(self, seen: TopicProfile, found: schemas.Schemas) -> TableVersions:
        """What the schema log says, which is asked again where it may not have explained the records' schemas yet.

        Raises KeyChanged.
        """
        shape = found.shape
        assert shape is not None
        if seen.unkeyed and self._table is not None and evolve.is_keyed(self._table):
            self._schema_log.catch_up()
        if seen.schema_ids.keys() | seen.key_schema_ids <= self._known_ids:
            versions = self._schema_log.table(*self._name)
        else:
            versions = self._schema_log.explained(*self._name, lambda known: version_of(shape, known) is not None)
            self._known_ids |= seen.schema_ids.keys() | seen.key_schema_ids
        if self._table is not None and rekey.due(self._table, versions):
            raise KeyChanged
        return versions

    def _follow(self, table: LakeTable, session: SparkSession, outcome: Outcome) -> None:
        versions = self._schema_log.table(*self._name)
        has = evolve.applied(table, versions)
        wanted = restrained(has, target(None, (), versions, has), self._policy)
        evolve.check_frozen(table, wanted)
        if wanted.version is None:
            return
        done = evolve.fit(Lake(session), table, wanted=wanted, versions=versions, shape=None)
        outcome.schema_changes += [str(change) for change in done]
        evolve.backfill(session, table)

    def _merge(
        self, part: Part, rows: DataFrame, shape: TableShape, keys: tuple[str, ...], facts: Row,
        letters: list[DataFrame], fit: Callable[[Lake, LakeTable], list[Change]],
    ) -> None:  # fmt: skip
        session, outcome = part.session, part.outcome
        good = rows.where(F.col("problem").isNull() & (F.col("op") != TRUNCATE))
        before = self._known().truncated_lsn
        cleared = facts.truncated if (facts.truncated or 0) > (before or 0) else None
        bound = before if cleared is None else cleared
        if bound is not None:
            good = good.where(F.col("lsn") > bound)
        if facts.replayed and keys:
            good = without_outdated(good, keys)
        with outcome.stage("evolve"):
            lake = Lake(session)
            table = self._table = self._table or evolve.create_table(lake, self._source, shape, keys)
            outcome.schema_changes += [str(change) for change in fit(lake, table)]
            evolve.backfill(session, table)
        if not keys:
            self._exchange(part, good, shape, facts, letters, cleared, table)
            return
        unavailable = facts.incomplete > 0
        few = cleared is None and facts.live <= FEW_CHANGES
        # From before a change of the key a row's events may be on several partitions, where its old key wasn't used.
        order = None if part.versions is None else F.struct("lsn", "offset")
        with outcome.stage("fold"):
            if unavailable:
                good = inherit(good, shape, keys, session.table(table.sql_name))
            changes = fold(good, shape, keys, unavailable, order)
        lost, lacking, view = 0, None, self._view
        try:
            if unavailable or few:
                changes = changes.persist()
            folded = changes.count() if unavailable or few else folded_count(good, keys)
            if unavailable:
                lacking = orphans(changes, shape, session.table(table.sql_name).select(*map(quote, keys))).persist()
                lost = lacking.count()
                if lost:
                    letters.append(rejected(part.raw, lacking))
            self._bury(part, letters)
            changes.createOrReplaceGlobalTempView(view)
            empty = next(table.summaries(), None) is None
            plan = MergePlan(
                target=table.sql_name,
                changes=f"global_temp.`{view}`",
                columns=shape.column_names,
                keys=keys,
                kept=tuple(c.name for c in shape.toastable) if unavailable else (),
                bounds=bounds(facts, shape, keys) if cleared is None else None,
                among=key_among(changes, shape, keys) if few and not empty else None,
                truncated_lsn=cleared,
                resynced_from=self._resync.start if self._resync and self._resync.runs(self._known()) else {},
            )
            counts = ledger.Counts(
                merged=folded - lost, superseded=facts.live - folded, dead_lettered=facts.dead + lost,
                tombstones=part.seen.tombstones, truncates=facts.truncates,
            )  # fmt: skip
            self._account(part, counts, append_sql(plan) if empty else merge_sql(plan), cleared)
        finally:
            session.catalog.dropGlobalTempView(view)
            changes.unpersist()
            if lacking is not None:
                lacking.unpersist()

    def _exchange(
        self, part: Part, good: DataFrame, shape: TableShape, facts: Row, letters: list[DataFrame],
        cleared: int | None, table: LakeTable,
    ) -> None:  # fmt: skip
        """Merge into a table without a key: rows of it are deleted, and others inserted."""
        session = part.session
        with part.outcome.stage("fold"):
            summed = good.count()
            stored = session.table(table.sql_name)
            if self._resync is not None and self._resync.runs(self._known()):
                # Rows that are read again stand beside their former selves, which go when all have been read.
                stored = stored.where(f"NOT ({self._resync.stale})")
            net = multiset.net(good, shape, facts, stored, cleared)
        if net.unknown is not None:
            letters.append(rejected(part.raw, net.unknown))
        self._bury(part, letters)
        counts = ledger.Counts(
            merged=summed - net.lost, superseded=facts.live - summed, dead_lettered=facts.dead + net.lost,
            tombstones=part.seen.tombstones, truncates=facts.truncates,
        )  # fmt: skip
        net.changes.createOrReplaceGlobalTempView(self._view)
        try:
            view = f"global_temp.`{self._view}`"
            statement = multiset.statement(net, table.sql_name, view, shape.column_names, cleared)
            self._account(part, counts, statement, cleared)
        finally:
            session.catalog.dropGlobalTempView(self._view)

    def _account(
        self, part: Part, counts: ledger.Counts, statement: str | None = None, truncated_lsn: int | None = None
    ) -> None:
        """Commit the part's entry in the ledger, with the data that ``statement`` writes, if it is given.

        Without a table nothing is committed; the entry of the commit that creates it begins with this part.
        """
        part.outcome.counts += counts
        self._untold += counts
        if self._table is None:
            return
        reached = replace(
            self._known().after(part.offsets, truncated_lsn), partitions=self._known().partitions or self._partitions
        )
        summary = ledger.summary(self._pipeline, part.batch, part.offsets, reached, self._untold, self._lost)
        with part.outcome.stage("merge"):
            if statement is None:
                self._table.commit_nothing(summary)
            else:
                failpoint("before-merge")
                commit(part.session, statement, summary)
                failpoint("after-merge")
        part.outcome.committed |= statement is not None
        self._ledger, self._untold, self._lost = reached, ledger.Counts(), {}

    def _give_up_lost(self, skipped: ledger.Ranges, number: int) -> None:
        """Account for the offsets that Kafka has lost, if a resync makes up for them. Raises StopPipeline."""
        lost = self._history.lost(self.topic, skipped) if skipped else {}
        if lost:
            check_lost(self.topic, lost, self._resync)
            self._lost |= lost
            self._read |= {partition: end for partition, (_, end) in lost.items()}
            if self._table is not None:
                self._commit_state(self._reached(), number)

    def _commit_state(self, reached: ledger.Ledger, number: int) -> None:
        """Commit an entry without data that brings the ledger to ``reached``."""
        assert self._table is not None
        offsets = self._known().up_to(reached.positions)
        summary = ledger.summary(self._pipeline, number, offsets, reached, self._untold, self._lost)
        self._table.commit_nothing(summary)
        self._ledger, self._untold, self._lost = reached, ledger.Counts(), {}

    def _reject_all(self, part: Part, found: schemas.Schemas) -> None:
        dead = part.seen.rows - part.seen.tombstones
        self._bury(part, [undecodable(part.raw, found.rejected)] if dead else [])
        self._account(part, ledger.Counts(dead_lettered=dead, tombstones=part.seen.tombstones))

    def _bury(self, part: Part, letters: list[DataFrame]) -> None:
        """Keep the part's dead letters, before the commit that counts them."""
        if not letters:
            return
        with part.outcome.stage("dead_letters"):
            every = reduce(DataFrame.unionByName, letters)
            breaker.check(every, self.topic, part.seen.rows, self._dead_share, self._parking.accepted(self.topic))
            self._letters.write(every, self.topic, part.batch, part.seen.ranges)
