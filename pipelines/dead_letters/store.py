"""Keep records that can't be merged, whole and with the reason, in a Kafka topic and an Iceberg table.

The table has each letter once: a record's position is its identity, and what lies below the position that the table has
reached of a topic (in its snapshots' summaries, as with mirrored tables) is looked up before it is written. The Kafka
topic is written first, so that a letter is never only in the table's future; a crash between the two repeats letters
there, where the position headers tell them apart.
"""

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.failpoints import failpoint
from pipelines.kafka.client import create_topic
from pipelines.kafka.ranges import Ranges
from pipelines.kafka.wire import schema_id
from pipelines.lake.catalog import Lake
from pipelines.lake.commit import commit
from pipelines.lake.names import DEAD_LETTER_ACTIONS, DEAD_LETTERS, NAMESPACE
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import BATCH, PIPELINE, Ledger
from pipelines.sources.base.change_rows import (
    BROKEN,
    FUTURE,
    MISSING_VALUE,
    NO_KEY,
    PARKED,
    TOO_OLD,
    UNAVAILABLE,
    UNKNOWN_OPERATION,
    UNKNOWN_ROW,
    explain,
    schema_problem,
)
from pipelines.spark.dataframes import persisted
from pipelines.sql import quote

DEAD_LETTER_TOPIC = "lakehouse.dead-letters"
# Of the mirror; those of another pipeline have its name behind a dot.
LETTER_POSITIONS = "lakehouse.dead-letter-positions"
_MIRROR = "mirror"
HEADER_PREFIX = "lakehouse."
# The broker says how large a record may be; memory is taken as it is needed.
AS_LARGE_AS_THEY_ARE = {"kafka.max.request.size": str(2**31 - 1), "kafka.buffer.memory": str(2**31 - 1)}

_HEADER = {
    "type": "struct",
    "fields": [
        {"id": 12, "name": "key", "required": False, "type": "string"},
        {"id": 13, "name": "value", "required": False, "type": "binary"},
    ],
}
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "topic", "required": True, "type": "string"},
        {"id": 2, "name": "partition", "required": True, "type": "int"},
        {"id": 3, "name": "offset", "required": True, "type": "long"},
        {"id": 4, "name": "timestamp", "required": False, "type": "timestamptz"},
        {"id": 5, "name": "key", "required": False, "type": "binary"},
        {"id": 6, "name": "value", "required": False, "type": "binary"},
        {
            "id": 7,
            "name": "headers",
            "required": False,
            "type": {"type": "list", "element-id": 11, "element": _HEADER, "element-required": False},
        },
        {"id": 8, "name": "stage", "required": True, "type": "string"},
        {"id": 9, "name": "reason", "required": True, "type": "string"},
        {"id": 10, "name": "message", "required": False, "type": "string"},
        {"id": 14, "name": "dead_lettered_at", "required": True, "type": "timestamptz"},
    ],
}
# The stage that finds a problem; the others are decode's.
STAGES = {
    NO_KEY: "admit", UNKNOWN_OPERATION: "admit", BROKEN: "admit", PARKED: "admit",
    MISSING_VALUE: "admit", TOO_OLD: "admit", FUTURE: "admit", UNAVAILABLE: "fold", UNKNOWN_ROW: "fold",
}  # fmt: skip
COLUMNS = tuple(str(column["name"]) for column in SCHEMA["fields"])


class DeadLetters:
    """The dead-letter topic and table. Safe to use from several threads; one batch's letters of one topic a call."""

    def __init__(self, spark: SparkSession, kafka_bootstrap: str, pipeline: str) -> None:
        self._session = spark.newSession()
        self._kafka_bootstrap = kafka_bootstrap
        self._pipeline = pipeline
        self._lock = Lock()
        self._lake = Lake(spark)
        self._table: LakeTable | None = None
        self._positions: dict[str, Ledger] = {}

    def write(self, letters: DataFrame, topic: str, batch: int, ranges: Ranges) -> None:
        """Keep ``letters``: raw records of ``topic`` with the columns ``stage``, ``reason`` and ``message`` added.

        ``ranges``: the offsets among which all letters are that this batch has of the topic. Letters that are there
        already are not written again.
        """
        with self._lock:
            try:
                self._write(letters, topic, batch, ranges)
            except BaseException:
                # The commit may have been done all the same: the table tells, when it is opened again.
                self._table = None
                raise

    def void(self, topic: str) -> None:
        """Void the offsets of a topic's letters and of what was done with them: the topic was renewed. Repeatable.

        They become negative, which no record's are.
        """
        with self._lock:
            for name in (DEAD_LETTERS, DEAD_LETTER_ACTIONS):
                table = self._lake.table(NAMESPACE, name)
                if table is not None:
                    where = {"topic": topic}
                    self._session.sql(
                        f"UPDATE {table.sql_name} SET offset = -1 - offset WHERE topic = :topic AND offset >= 0", where
                    )
            self._table = None

    def _write(self, letters: DataFrame, topic: str, batch: int, ranges: Ranges) -> None:
        table = self._open()
        known = self._positions.get(topic, Ledger())
        if known.pending(ranges) != ranges:
            stored = self._session.table(table.sql_name).where(F.col("topic") == topic).select("partition", "offset")
            letters = letters.join(stored, ["partition", "offset"], "left_anti")
        with persisted(letters.withColumn("dead_lettered_at", F.current_timestamp())) as fresh:
            if not fresh.isEmpty():
                failpoint("before-letters")
                self._produce(fresh)
                failpoint("between-letters")
                reached = {**self._positions, topic: known.after(ranges)}
                self._append(fresh, table, batch, reached)
                self._positions = reached
                failpoint("after-letters")

    def _open(self) -> LakeTable:
        if self._table is None:
            properties = {"comment": "Records that could not be merged, whole, with the reason"}
            self._table = self._lake.table(NAMESPACE, DEAD_LETTERS) or self._lake.create(
                NAMESPACE, DEAD_LETTERS, SCHEMA, properties
            )
            self._positions = read_positions(self._table, self._pipeline)
            create_topic(self._kafka_bootstrap, DEAD_LETTER_TOPIC, {"retention.ms": "-1"})
        return self._table

    def _produce(self, letters: DataFrame) -> None:
        added = {
            "topic": F.col("topic"),
            "partition": F.col("partition"),
            "offset": F.col("offset"),
            "stage": F.col("stage"),
            "reason": F.col("reason"),
            "message": F.col("message"),
        }
        headers = F.concat(F.coalesce("headers", F.array().cast(_KAFKA_HEADERS)), _headers(added))
        where = {"kafka.bootstrap.servers": self._kafka_bootstrap, "topic": DEAD_LETTER_TOPIC, "includeHeaders": "true"}
        records = letters.select("key", "value", headers.alias("headers"))
        records.write.format("kafka").options(**AS_LARGE_AS_THEY_ARE, **where).save()

    def _append(self, letters: DataFrame, table: LakeTable, batch: int, reached: Mapping[str, Ledger]) -> None:
        view = "dead_letters"
        columns = ", ".join(quote(name) for name in COLUMNS)
        letters.createOrReplaceGlobalTempView(view)
        positions = {topic: {str(p): o for p, o in state.positions.items()} for topic, state in sorted(reached.items())}
        summary = {
            PIPELINE: self._pipeline, BATCH: str(batch), _property(self._pipeline): json.dumps(positions)
        }  # fmt: skip
        commit(
            self._session,
            f"INSERT INTO {table.sql_name} ({columns}) SELECT {columns} FROM global_temp.{view}",
            summary,
        )


def rejected_records(raw: DataFrame, verdicts: DataFrame) -> DataFrame:
    """Return letters for the records that ``verdicts`` names by ``partition``, ``offset`` and ``problem``.

    ``raw``: the records themselves.
    """
    named = raw.join(F.broadcast(verdicts.select("partition", "offset", "problem")), ["partition", "offset"])
    stage = F.coalesce(
        F.create_map(*[F.lit(text) for pair in STAGES.items() for text in pair])[_reason()], F.lit("decode")
    )
    return _letters(named, stage)


def undecodable_records(raw: DataFrame, reasons: Mapping[int, str]) -> DataFrame:
    """Return letters for all of ``raw`` that have a value, none of which has a schema that can be used.

    ``reasons``: schema id to the reason.
    """
    values = raw.where(F.col("value").isNotNull())
    return _letters(values.withColumn("problem", schema_problem(schema_id("value"), reasons)), F.lit("decode"))


def _reason() -> Column:
    return F.split_part(F.col("problem"), F.lit(": "), F.lit(1))


def _letters(records: DataFrame, stage: Column) -> DataFrame:
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    verdict = (stage.alias("stage"), _reason().alias("reason"), explain(F.col("problem")).alias("message"))
    return records.select(*names, *verdict)


def read_positions(table: LakeTable, pipeline: str = _MIRROR) -> dict[str, Ledger]:
    """Return topic to what of it the table has seen, from the pipeline's newest snapshot that says so."""
    mine = _property(pipeline)
    for summary in table.summaries():
        if mine in summary:
            topics = json.loads(summary[mine]).items()
            return {topic: Ledger({int(p): int(o) for p, o in state.items()}) for topic, state in topics}
    return {}


def commit_positions(table: LakeTable) -> None:
    """Have the newest snapshot say what of each topic the table has seen, before older ones are given up."""
    positions: dict[str, str] = {}
    for summary in table.summaries():
        for name in summary:
            if name == LETTER_POSITIONS or name.startswith(f"{LETTER_POSITIONS}."):
                positions.setdefault(name, summary[name])
    if positions:
        table.commit_nothing(positions)


def _property(pipeline: str) -> str:
    return LETTER_POSITIONS if pipeline == _MIRROR else f"{LETTER_POSITIONS}.{pipeline}"


_KAFKA_HEADERS = "array<struct<key:string,value:binary>>"


def _headers(values: Mapping[str, Column]) -> Column:
    entries = [
        F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in values.items()
    ]
    return F.array(*entries).cast(_KAFKA_HEADERS)
