"""Plain append of application logs: JSON by a fixed schema, appended by Iceberg's own streaming sink."""

from pyspark.sql import functions as F

from pipelines.kafka.read import OPTIONS
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session

TOPIC, TABLE = "events.logs", "lake.bench_events.logs"
COLUMNS = (
    "log_id string, logged_at timestamp, level string, service string, host string, message string, trace_id string,"
    " duration_ms double, http struct<method string, path string, status bigint>, labels map<string, string>"
)


def main() -> int:
    """Run until the query fails."""
    settings = MirrorSettings()
    spark = start_session(settings, "bench append")
    spark.sparkContext.setLogLevel("WARN")
    records = (
        spark.readStream.format("kafka").options(**OPTIONS)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap).option("subscribe", TOPIC)
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger).load()
    )  # fmt: skip
    event = F.from_json(F.col("value").cast("string"), COLUMNS).alias("event")
    rows = records.select(event, "partition", "offset", "timestamp").select(
        "event.*", "partition", "offset", "timestamp"
    )
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench_events")
    if not spark.catalog.tableExists(TABLE):
        empty = spark.createDataFrame([], rows.schema)
        empty.writeTo(TABLE).using("iceberg").partitionedBy(F.days("logged_at"), "service").create()
    rows.writeStream.trigger(processingTime="500 milliseconds").option("fanout-enabled", "true").option(
        "checkpointLocation", str(settings.state_dir / "checkpoints")
    ).toTable(TABLE)
    spark.streams.awaitAnyTermination()
    return 1


if __name__ == "__main__":
    leave(main())
