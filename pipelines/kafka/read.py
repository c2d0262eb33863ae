"""Read: the captured topics as one stream of raw records, bounded per batch; and a topic's range once more.

Raw records have the columns key, value (binary), topic, partition, offset, timestamp and headers. Only committed
records are read, as Connect writes in transactions.
"""

import json
import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.settings import MirrorSettings
from pipelines.sources.postgres.capture import HEARTBEAT_TABLE, SCHEMA_CHANGES
from pipelines.sources.postgres.names import escaped

# So many records are a task's, of the Kafka partitions that have more: a batch of a million in three of them is 24
# tasks, which most numbers of cores share evenly.
TASK_RECORDS = 42_000
OPTIONS = {
    # Where offsets are gone that were asked for, the read fails: never skip.
    "failOnDataLoss": "true",
    "includeHeaders": "true",
    "kafka.isolation.level": "read_committed",
    # A read ends with an empty fetch wherever a transaction's marker comes last: that fetch must not wait long.
    "kafka.fetch.max.wait.ms": "20",
    # All that a fetch has brought is taken at once: after each poll Spark asks where the partition begins and ends,
    # and what was fetched beyond is fetched again.
    "kafka.max.poll.records": "5000",
    "kafka.receive.buffer.bytes": str(1 << 20),
    "maxRecordsPerPartition": str(TASK_RECORDS),
}


def topic_pattern(settings: MirrorSettings) -> str:
    """A Java regular expression for every captured table's topic, for the heartbeat, which keeps lag visible, and for
    the schema log, which tables follow.
    """
    prefix = re.escape(settings.source_name)
    schemas = "|".join(re.escape(escaped(schema)) for schema in settings.schemas)
    # Spark looks for the pattern anywhere in a name, so both ends are tied.
    return rf"^{prefix}\.(({schemas})\..+|{re.escape(HEARTBEAT_TABLE)}|{re.escape(SCHEMA_CHANGES)})$"


def read_stream(spark: SparkSession, settings: MirrorSettings) -> DataFrame:
    """Every captured topic from its beginning. Topics made later join in."""
    return (
        spark.readStream.format("kafka")
        .options(**OPTIONS)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribePattern", topic_pattern(settings))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("kafka.metadata.max.age.ms", "2000")
        .load()
    )


def read_ranges(spark: SparkSession, kafka_bootstrap: str, ranges: Mapping[str, Ranges]) -> DataFrame:
    """Ranges of topics."""
    ranges = {topic: non_empty(by) for topic, by in ranges.items()}
    return (
        spark.read.format("kafka")
        .options(**OPTIONS)
        .option("kafka.bootstrap.servers", kafka_bootstrap)
        .option("assign", json.dumps({topic: sorted(by) for topic, by in ranges.items()}))
        .option("startingOffsets", _offsets(ranges, 0))
        .option("endingOffsets", _offsets(ranges, 1))
        .load()
    )


def _offsets(ranges: Mapping[str, Ranges], which: int) -> str:
    return json.dumps({t: {str(partition): span[which] for partition, span in by.items()} for t, by in ranges.items()})


def within(ranges: Ranges) -> Column:
    """Whether a record's ``partition`` and ``offset`` lie in ``ranges``."""
    inside = F.lit(False)
    for partition, (start, end) in sorted(ranges.items()):
        inside = inside | (
            (F.col("partition") == partition) & (F.col("offset") >= F.lit(start)) & (F.col("offset") < F.lit(end))
        )
    return inside
