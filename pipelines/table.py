"""One table's share of a batch: ledger → decode → admit → fold → evolve → merge."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipelines import evolve, ledger
from pipelines.admit import NO_KEY, TRUNCATE, admit, explain
from pipelines.deadletters import DeadLetters, within
from pipelines.decode import UNKNOWN_SCHEMA, decode, schema_problem
from pipelines.errors import UnknownSchema
from pipelines.facts import batch_facts, key_among, key_bounds
from pipelines.fold import KEEP, fold, positions
from pipelines.iceberg import Lake, LakeTable
from pipelines.inherit import inherit
from pipelines.merge import MergePlan, append_sql, commit, merge_sql
from pipelines.profile import TopicProfile, schema_id
from pipelines.registry import SchemaRegistry
from pipelines.sources.postgres.envelope import NotAChangeEvent, TableShape, key_columns, table_shape
from pipelines.sources.postgres.types import UnsupportedType

FEW_CHANGES = 5_000


@dataclass
class Outcome:
    """What became of a topic's records in a batch. Times in milliseconds, by stage."""

    topic: str
    rows: int = 0
    merged: int = 0
    dead: int = 0
    skipped: int = 0
    committed: bool = False
    oldest_commit: float | None = None
    newest_commit: float | None = None
    ms: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0) + round((time.monotonic() - started) * 1000)


@dataclass(frozen=True)
class Schemas:
    """What the registry says of the schema ids in a batch of one topic: the newest shape that can be used, if any, the
    writer schemas, and for each id that can't be used the reason.
    """

    shape: TableShape | None
    writers: dict[int, str]
    rejected: dict[int, str]


class TableMirror:
    """Mirrors one topic into one table. Used by one thread at a time."""

    def __init__(
        self,
        topic: str,
        source: str,
        pipeline: str,
        registry: SchemaRegistry,
        letters: DeadLetters,
        placeholder: str,
    ) -> None:
        self.topic, self._source, self._pipeline = topic, source, pipeline
        self._registry, self._letters, self._placeholder = registry, letters, placeholder
        self._table: LakeTable | None = None
        self._ledger: ledger.Ledger | None = None

    def mirror(self, batch: DataFrame, seen: TopicProfile, number: int, session: SparkSession) -> Outcome:
        """Bring the topic's part of ``batch`` into the table. What the ledger already holds is skipped."""
        outcome = Outcome(self.topic, rows=seen.rows)
        try:
            self._mirror(batch, seen, number, session, outcome)
        except BaseException:
            self._table = self._ledger = None
            raise
        return outcome

    def _mirror(
        self, batch: DataFrame, seen: TopicProfile, number: int, session: SparkSession, outcome: Outcome
    ) -> None:
        with outcome.stage("ledger"):
            state = self._state(Lake(session))
            pending = state.pending(seen.ranges)
        if not pending:
            outcome.skipped = seen.rows
            return
        raw = batch.where(F.col("topic") == self.topic)
        if pending != seen.ranges:
            raw = raw.where(within(pending))
        schemas = self._schemas(seen)
        if schemas.shape is None:
            self._reject_all(raw, seen, schemas, number, outcome)
            return
        keys = self._keys(seen)
        shape = schemas.shape
        rows = admit(decode(raw, shape, schemas.writers, schemas.rejected, self._placeholder), keys).persist()
        try:
            with outcome.stage("decode"):
                facts = batch_facts(rows, shape, keys)
            outcome.oldest_commit, outcome.newest_commit = facts.oldest, facts.newest
            if facts.dead:
                with outcome.stage("dead_letters"):
                    self._bury(raw, rows.where(F.col("problem").isNotNull()), number, seen)
                outcome.dead = facts.dead
            truncated = max((lsn for lsn in (facts.truncated, state.truncated_lsn) if lsn is not None), default=None)
            if facts.live or facts.truncated is not None:
                good = rows.where(F.col("problem").isNull() & (F.col("op") != TRUNCATE))
                if truncated is not None:
                    good = good.where(F.col("lsn") > truncated)
                self._merge(good, raw, shape, keys, facts, state, pending, seen, number, session, outcome)
        finally:
            rows.unpersist()

    def _merge(
        self,
        good: DataFrame,
        raw: DataFrame,
        shape: TableShape,
        keys: tuple[str, ...],
        facts: Row,
        state: ledger.Ledger,
        pending: ledger.Ranges,
        seen: TopicProfile,
        number: int,
        session: SparkSession,
        outcome: Outcome,
    ) -> None:
        with outcome.stage("evolve"):
            lake = Lake(session)
            table = self._table or evolve.create_table(lake, self._source, shape, keys)
            evolve.fit(lake, table, shape, keys)
        unavailable = facts.incomplete > 0 and bool(keys)
        with outcome.stage("fold"):
            if unavailable:
                good = inherit(good, shape, keys, session.table(table.sql_name))
            changes = fold(good, shape, keys, unavailable) if keys else positions(good, shape)
        view = "changes_" + "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in self.topic)
        few = bool(keys) and facts.truncated is None and facts.live <= FEW_CHANGES
        try:
            if unavailable or few:
                changes = changes.persist()
            if unavailable:
                outcome.dead += self._bury_incomplete(changes, raw, shape, keys, table, session, number, seen)
            changes.createOrReplaceGlobalTempView(view)
            empty = next(table.summaries(), None) is None
            kept = tuple(c.name for c in shape.toastable) if unavailable else ()
            plan = MergePlan(
                target=table.sql_name,
                changes=f"global_temp.`{view}`",
                columns=shape.column_names,
                keys=keys,
                kept=kept,
                bounds=key_bounds(facts, shape, keys) if facts.truncated is None else None,
                among=key_among(changes, shape, keys) if few and not empty else None,
                truncated_lsn=facts.truncated,
            )
            reached = state.after(pending, facts.truncated)
            summary = ledger.summary(self._pipeline, number, pending, reached)
            with outcome.stage("merge"):
                commit(session, append_sql(plan) if empty or not keys else merge_sql(plan), summary)
        finally:
            session.catalog.dropGlobalTempView(view)
            changes.unpersist()
        outcome.merged, outcome.committed = facts.live, True
        table.refresh()
        self._table, self._ledger = table, reached

    def _state(self, lake: Lake) -> ledger.Ledger:
        if self._table is None or self._ledger is None:
            _, schema, name = self.topic.split(".", 2)
            self._table = lake.table(evolve.lake_namespace(self._source, schema), name)
            self._ledger = ledger.read(self._table.summaries()) if self._table else ledger.Ledger()
        return self._ledger

    def _schemas(self, seen: TopicProfile) -> Schemas:
        writers, rejected, shape = {}, {}, None
        for identifier in sorted(seen.schema_ids, key=lambda i: seen.schema_ids[i]):
            try:
                writer = self._registry.schema(identifier)
                shape = table_shape(self.topic, writer)
                writers[identifier] = writer
            except UnknownSchema:
                rejected[identifier] = UNKNOWN_SCHEMA
            except NotAChangeEvent as error:
                rejected[identifier] = f"foreign_schema: {error}"
            except UnsupportedType as error:
                rejected[identifier] = f"unsupported_type: {error}"
        return Schemas(shape, writers, rejected)

    def _keys(self, seen: TopicProfile) -> tuple[str, ...]:
        for identifier in sorted(seen.key_schema_ids, reverse=True):
            try:
                return key_columns(self._registry.schema(identifier))
            except (UnknownSchema, NotAChangeEvent):
                continue
        return tuple(json.loads(self._table.properties[evolve.KEY_COLUMNS])) if self._table else ()

    def _reject_all(self, raw: DataFrame, seen: TopicProfile, schemas: Schemas, number: int, outcome: Outcome) -> None:
        values = raw.where(F.col("value").isNotNull())
        problem = schema_problem(schema_id("value"), schemas.rejected)
        with outcome.stage("dead_letters"):
            outcome.dead = values.count()
            if outcome.dead:
                self._letters.write(_letter(values, F.lit("decode"), problem), self.topic, number, seen.ranges)

    def _bury(self, raw: DataFrame, bad: DataFrame, number: int, seen: TopicProfile) -> None:
        verdicts = bad.select("partition", "offset", "problem")
        letters = raw.join(F.broadcast(verdicts), ["partition", "offset"])
        stage = F.when(F.col("problem") == NO_KEY, "admit").otherwise("decode")
        self._letters.write(_letter(letters, stage, F.col("problem")), self.topic, number, seen.ranges)

    def _bury_incomplete(
        self,
        changes: DataFrame,
        raw: DataFrame,
        shape: TableShape,
        keys: tuple[str, ...],
        table: LakeTable,
        session: SparkSession,
        number: int,
        seen: TopicProfile,
    ) -> int:
        """Dead-letter changes that lack an unchanged value which the table doesn't have either."""
        lacking = F.lit(False)
        for column in shape.toastable:
            lacking = lacking | F.col(KEEP).getField(column.name)
        wanting = changes.where(lacking)
        if wanting.isEmpty():
            return 0
        present = session.table(table.sql_name).select(*keys)
        orphans = (
            wanting.join(present, list(keys), "left_anti")
            .select(F.col("_kafka_partition").alias("partition"), F.col("_kafka_offset").alias("offset"))
            .persist()
        )
        try:
            count = orphans.count()
            if count:
                letters = raw.join(F.broadcast(orphans), ["partition", "offset"])
                reason = F.lit("unavailable_value")
                self._letters.write(_letter(letters, F.lit("fold"), reason), self.topic, number, seen.ranges)
            return count
        finally:
            orphans.unpersist()


def _letter(records: DataFrame, stage: Column, problem: Column) -> DataFrame:
    reason = F.split_part(problem, F.lit(": "), F.lit(1))
    return records.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
        stage.alias("stage"),
        reason.alias("reason"),
        explain(problem).alias("message"),
    )
