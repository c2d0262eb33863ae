"""What the Spark jobs have in common: their tables, and the events of a topic decoded into rows."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from pipelines.schema.columns import TableShape
from pipelines.sources.debezium.envelope import table_shape


@dataclass(frozen=True)
class Table:
    """A table to fill. ``name``: with catalog and namespace."""

    name: str
    topic: str
    key: tuple[str, ...]
    schema: str
    shape: TableShape


def tables() -> list[Table]:
    """The tables of the job that BENCH_JOB describes."""
    job = json.loads(Path(os.environ["BENCH_JOB"]).read_text(encoding="utf-8"))
    schema = os.environ["CAPTURED_SCHEMAS"]
    return [
        Table(
            f"lake.{job['namespace']}.`{name}`", told["topic"], tuple(told["key"]), told["schema"],
            table_shape(told["topic"], (schema, name), told["schema"]),
        )
        for name, told in job["tables"].items()
    ]  # fmt: skip


def create(spark: SparkSession, table: Table, columns: StructType) -> None:
    """An empty Iceberg table of format 2, unless there is one."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.name.rsplit('.', 1)[0]}")
    if not spark.catalog.tableExists(table.name):
        empty = spark.createDataFrame([], columns)
        empty.writeTo(table.name).using("iceberg").tableProperty("format-version", "2").create()


def changes(records: DataFrame, table: Table) -> DataFrame:
    """Source columns of the new state, or of a delete's key, and technical ones. Tombstones are left out."""
    body = F.expr("substring(value, 6)")
    options = {"avroSchema": table.shape.reader_schema, "mode": "FAILFAST"}
    decoded = records.where(F.col("value").isNotNull()).select(
        "partition", "offset", from_avro(body, table.schema, options).alias("event")
    )
    image = F.when(F.col("event.op") == "d", F.col("event.before")).otherwise(F.col("event.after"))
    opened = decoded.select("partition", "offset", "event", image.alias("image"))

    def value(name: str) -> Column:
        column = next(column for column in table.shape.columns if column.name == name)
        return column.type.convert(F.col("image").getField(column.field)).alias(name)

    return opened.select(
        *[value(name) for name in table.shape.column_names],
        F.col("event.op").alias("_op"), F.col("event.source.lsn").alias("_lsn"),
        F.timestamp_micros("event.source.ts_us").alias("_committed_at"),
        F.col("partition").alias("_kafka_partition"), F.col("offset").alias("_kafka_offset"),
    )  # fmt: skip
