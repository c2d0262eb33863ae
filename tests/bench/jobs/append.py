"""Plain append: each table's topic decoded and appended, by Iceberg's own streaming sink."""

from pyspark.sql import DataFrame, SparkSession

from pipelines.kafka.read import OPTIONS
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session
from tests.bench.jobs.decoding import Table, changes, create, tables


def main() -> int:
    """Run until a query fails."""
    settings = MirrorSettings()
    spark = start_session(settings, "bench append")
    spark.sparkContext.setLogLevel("WARN")
    for table in tables():
        rows = changes(_records(spark, settings, table), table)
        create(spark, table, rows.schema)
        rows.writeStream.trigger(processingTime="500 milliseconds").option(
            "checkpointLocation", str(settings.state_dir / "checkpoints" / table.topic)
        ).toTable(table.name)
    spark.streams.awaitAnyTermination()
    return 1


def _records(spark: SparkSession, settings: MirrorSettings, table: Table) -> DataFrame:
    return (
        spark.readStream.format("kafka").options(**OPTIONS)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap).option("subscribe", table.topic)
        .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger).load()
    )  # fmt: skip


if __name__ == "__main__":
    leave(main())
