"""The tutorials' way: every ten seconds the newest change of each key, by its millisecond, merged copy-on-write."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipelines.kafka.read import OPTIONS
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session
from tests.bench.jobs.decoding import Table, changes, create, tables

SHUFFLE_PARTITIONS = "4"
RECORD = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def main() -> int:
    """Run until the query fails."""
    settings = MirrorSettings()
    spark = start_session(settings, "bench tutorial")
    spark.sparkContext.setLogLevel("WARN")
    spark.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
    every = tables()
    for table in every:
        nothing = spark.createDataFrame([], RECORD)
        create(spark, table, changes(nothing, table).withColumn("_ts_ms", F.lit(0).cast("long")).schema)

    def merge(batch: DataFrame, _number: int) -> None:
        batch.persist()
        for table in every:
            _merge(batch.where(F.col("topic") == table.topic), table)
        batch.unpersist()

    stream = (
        spark.readStream.format("kafka").options(**OPTIONS)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", ",".join(table.topic for table in every)).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger).load()
    )  # fmt: skip
    query = stream.writeStream.foreachBatch(merge).trigger(processingTime="10 seconds")
    query.option("checkpointLocation", str(settings.state_dir / "checkpoint")).start()
    spark.streams.awaitAnyTermination()
    return 1


def _merge(records: DataFrame, table: Table) -> None:
    newest = Window.partitionBy(*table.key).orderBy(F.col("_ts_ms").desc())
    rows = changes(records, table).withColumn("_ts_ms", (F.unix_micros("_committed_at") / 1000).cast("long"))
    fresh = rows.withColumn("_n", F.row_number().over(newest)).where("_n = 1").drop("_n")
    fresh.createOrReplaceTempView("fresh")
    on = " AND ".join(f"t.`{name}` = s.`{name}`" for name in table.key)
    fresh.sparkSession.sql(
        f"MERGE INTO {table.name} t USING fresh s ON {on} WHEN MATCHED AND s._op = 'd' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT *"
    )


if __name__ == "__main__":
    leave(main())
