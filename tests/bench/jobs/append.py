"""Plain append: each table's topic decoded and appended, by Iceberg's own streaming sink."""

from pyspark.sql import DataFrame, SparkSession

from pipelines.read import OPTIONS
from pipelines.session import leave, start_session
from pipelines.settings import MirrorSettings
from tests.bench.jobs.decoding import Table, changes, tables


def main() -> int:
    """Run until a query fails."""
    settings = MirrorSettings()
    spark = start_session(settings, "bench append")
    spark.sparkContext.setLogLevel("WARN")
    for table in tables():
        rows = changes(_records(spark, settings, table), table)
        _create(spark, table, rows)
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


def _create(spark: SparkSession, table: Table, rows: DataFrame) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.name.rsplit('.', 1)[0]}")
    if not spark.catalog.tableExists(table.name):
        empty = spark.createDataFrame([], rows.schema)
        empty.writeTo(table.name).using("iceberg").tableProperty("format-version", "2").create()


if __name__ == "__main__":
    leave(main())
