"""Read the captured topics as one stream of raw records, bounded per batch; and a topic's range once more.

Raw records have the columns key, value (binary), topic, partition, offset, timestamp and headers. Only committed
records are read, as Connect writes in transactions.
"""

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.kafka.ranges import Ranges, non_empty

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


def read_stream(spark: SparkSession, kafka_bootstrap: str, topic_pattern: str, max_offsets: int) -> DataFrame:
    """Stream every topic whose name has the pattern, from its beginning. Topics made later join in.

    ``max_offsets``: so many are read a batch, at most.
    """
    return (
        spark.readStream.format("kafka")
        .options(**OPTIONS)
        .option("kafka.bootstrap.servers", kafka_bootstrap)
        .option("subscribePattern", topic_pattern)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .option("kafka.metadata.max.age.ms", "2000")
        .load()
    )


def read_ranges(spark: SparkSession, kafka_bootstrap: str, ranges: Mapping[str, Ranges]) -> DataFrame:
    """Read ranges of topics."""
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
    """Return whether a record's ``partition`` and ``offset`` lie in ``ranges``."""
    inside = F.lit(False)
    for partition, (start, end) in sorted(ranges.items()):
        inside = inside | (
            (F.col("partition") == partition) & (F.col("offset") >= F.lit(start)) & (F.col("offset") < F.lit(end))
        )
    return inside
