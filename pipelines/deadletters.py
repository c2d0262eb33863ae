"""Dead letters: records that can't be merged, kept whole with the reason, in a Kafka topic and an Iceberg table.

The table is written exactly once (its snapshots carry the positions it has reached, as the mirrored tables' do). The
topic is written first, so that a letter is never only in the table's future; a crash between the two repeats letters in
the topic, where the position headers tell them apart.
"""

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines import ledger
from pipelines.errors import RetryBatch
from pipelines.iceberg import Lake, LakeTable
from pipelines.identifiers import quote
from pipelines.merge import commit

NAMESPACE, TABLE, TOPIC = "lakehouse", "dead_letters", "lakehouse.dead-letters"
POSITIONS = "lakehouse.dead-letter-positions"
HEADER_PREFIX = "lakehouse."

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
        self._positions: dict[str, ledger.Ledger] = {}

    def write(self, letters: DataFrame, topic: str, batch: int, ranges: ledger.Ranges) -> None:
        """Keep ``letters``: raw records of ``topic`` with the columns ``stage``, ``reason`` and ``message`` added.

        ``ranges``: what the batch holds of the topic; letters below the position reached earlier are not written again.
        """
        with self._lock:
            table = self._open()
            known = self._positions.get(topic, ledger.Ledger())
            pending = known.pending(ranges)
            if not pending:
                return
            fresh = letters.where(within(pending)).withColumn("dead_lettered_at", F.current_timestamp()).persist()
            try:
                if not fresh.isEmpty():
                    self._produce(fresh)
                    reached = {**self._positions, topic: known.after(ranges)}
                    self._append(fresh, table, batch, reached)
                    self._positions = reached
            finally:
                fresh.unpersist()

    def _open(self) -> LakeTable:
        if self._table is None:
            properties = {"comment": "Records that could not be merged, whole, with the reason"}
            self._table = self._lake.table(NAMESPACE, TABLE) or self._lake.create(NAMESPACE, TABLE, SCHEMA, properties)
            self._positions = read_positions(self._table)
            create_topic(self._kafka_bootstrap)
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
        letters.select("key", "value", headers.alias("headers")).write.format("kafka").option(
            "kafka.bootstrap.servers", self._kafka_bootstrap
        ).option("topic", TOPIC).option("includeHeaders", "true").save()

    def _append(self, letters: DataFrame, table: LakeTable, batch: int, reached: Mapping[str, ledger.Ledger]) -> None:
        view = "dead_letters"
        columns = ", ".join(quote(name) for name in COLUMNS)
        letters.createOrReplaceGlobalTempView(view)
        positions = {topic: {str(p): o for p, o in state.positions.items()} for topic, state in sorted(reached.items())}
        summary = {ledger.PIPELINE: self._pipeline, ledger.BATCH: str(batch), POSITIONS: json.dumps(positions)}
        commit(
            self._session,
            f"INSERT INTO {table.sql_name} ({columns}) SELECT {columns} FROM global_temp.{view}",
            summary,
        )


def create_topic(kafka_bootstrap: str) -> None:
    """Create the dead-letter topic, which keeps its records for ever, unless it exists."""
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=-1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    try:
        admin.create_topics([topic])[TOPIC].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise RetryBatch(f"the topic {TOPIC} can't be created at {kafka_bootstrap}: {error}") from error


def read_positions(table: LakeTable) -> dict[str, ledger.Ledger]:
    """Topic to what of it the table has seen, from the newest snapshot that says so."""
    for summary in table.summaries():
        if POSITIONS in summary:
            topics = json.loads(summary[POSITIONS]).items()
            return {topic: ledger.Ledger({int(p): int(o) for p, o in state.items()}) for topic, state in topics}
    return {}


def within(ranges: ledger.Ranges) -> Column:
    """Whether a record's ``partition`` and ``offset`` lie in ``ranges``."""
    inside = F.lit(False)
    for partition, (start, end) in sorted(ranges.items()):
        inside = inside | (
            (F.col("partition") == partition) & (F.col("offset") >= F.lit(start)) & (F.col("offset") < F.lit(end))
        )
    return inside


_KAFKA_HEADERS = "array<struct<key:string,value:binary>>"


def _headers(values: Mapping[str, Column]) -> Column:
    entries = [
        F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value"))
        for name, value in values.items()
    ]
    return F.array(*entries).cast(_KAFKA_HEADERS)
