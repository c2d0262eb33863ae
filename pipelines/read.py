"""Read: the captured topics as one stream of raw records, bounded per batch."""

import re

from pyspark.sql import DataFrame, SparkSession

from pipelines.settings import MirrorSettings

HEARTBEAT_TABLE = "lakehouse.heartbeat"


def topic_pattern(settings: MirrorSettings) -> str:
    """A Java regular expression for every captured table's topic, and for the heartbeat, which keeps lag visible."""
    prefix = re.escape(settings.source_name)
    schemas = "|".join(re.escape(schema) for schema in settings.schemas)
    # Spark looks for the pattern anywhere in a name, so both ends are tied.
    return rf"^{prefix}\.(({schemas})\..+|{re.escape(HEARTBEAT_TABLE)})$"


def read_stream(spark: SparkSession, settings: MirrorSettings) -> DataFrame:
    """Raw records: key, value (binary), topic, partition, offset, timestamp, headers. Topics made later join in.

    A topic whose needed offsets are gone stops the stream: never skip. Only committed records are read, as Connect
    writes in transactions.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribePattern", topic_pattern(settings))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.metadata.max.age.ms", "2000")
        # A read ends with an empty fetch wherever a transaction's marker comes last: that fetch must not wait long.
        .option("kafka.fetch.max.wait.ms", "20")
        .load()
    )
