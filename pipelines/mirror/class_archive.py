"""Make an archive of the JVM classes that a mirror needs (class-data sharing).

Made once, in the background once a stack is up: `python -m pipelines.mirror.class_archive JARS ARCHIVE`. No server is
needed: what talks to one is made to try, at a port where nobody listens. A JVM that finds the archive unfit, because it
or its class path is another one, goes without. See infra/decisions/029-class-archive.md.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkConf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from pipelines.errors import JavaRaised
from pipelines.lake.commit import commit
from pipelines.merge.pruning import Pruning
from pipelines.merge.statement import MergePlan, append_rows, merge_sql
from pipelines.merge.strategy import FEW_ROWS
from pipelines.spark.session import DRIVER_JAVA_OPTIONS, ENGINE_CONF, class_path, launch

NOBODY = "127.0.0.1:9"
PATIENCE_SECONDS = 1800
_TABLE = "lake.n.t"
_AVRO = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
_COLUMNS = "id bigint, _kafka_partition int, _kafka_offset bigint, _lsn bigint, _committed_at timestamp, _op string"
_PROPERTIES = "'format-version'='2', 'write.delete.granularity'='partition', 'write.merge.mode'='merge-on-read'"


def main(jars: Path, archive: Path) -> None:
    """Write ``archive`` for drivers whose jars are in the folder ``jars``. An empty one: this JVM can't make any."""
    archive.unlink(missing_ok=True)
    with TemporaryDirectory() as folder:
        conf = SparkConf().setMaster("local[2]").setAppName("classes")
        for key, value in {
            **ENGINE_CONF, "spark.driver.extraClassPath": class_path(jars), "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
            # In quotes, as the checkout's path may have a space.
            "spark.driver.extraJavaOptions": f'{DRIVER_JAVA_OPTIONS} "-XX:ArchiveClassesAtExit={archive.resolve()}"',
            # It may have next to nothing of the machine: made in the background, while a stack is at work.
            "spark.executor.heartbeatInterval": "1h", "spark.network.timeout": "2h",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": folder,
        }.items():  # fmt: skip
            conf.set(key, value)
        spark = launch(conf, {})
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        try:
            _batches(spark)
            _stream(spark, Path(folder))
            _clients(spark._jvm)
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(PATIENCE_SECONDS)
    if not archive.exists():
        archive.touch()


def _batches(spark: SparkSession) -> None:
    """Do what a batch does to a table, small and large."""
    spark.sql("CREATE NAMESPACE lake.n")
    spark.sql(f"CREATE TABLE {_TABLE} ({_COLUMNS}) USING iceberg TBLPROPERTIES ({_PROPERTIES})")
    raw = spark.createDataFrame([(b"\x02", 0, n) for n in range(20)], "value binary, partition int, offset long")
    decoded = raw.select(from_avro("value", _AVRO).alias("row"), "partition", "offset").persist()
    decoded.groupBy("partition").agg(F.count("*"), F.max("offset"), F.collect_set("row.id")).collect()
    decoded.agg(F.max_by("row", "offset"), F.collect_set(F.struct("row.id")), F.count_if(F.col("offset") > 1)).collect()
    changes = decoded.groupBy("row.id").agg(F.max_by(F.struct("partition", "offset"), "offset").alias("newest"))
    changes.selectExpr(
        "id", "newest.partition _kafka_partition", "newest.offset _kafka_offset", "1L _lsn",
        "current_timestamp() _committed_at", "'u' _op", "'u' __op",
    ).createOrReplaceGlobalTempView("changes")  # fmt: skip
    pruning = Pruning({"id": (0, 9)}, ("id", 3, 5), ("id", (1, 2)))
    plan = MergePlan(_TABLE, "global_temp.changes", ("id",), ("id",), pruning=pruning)
    columns = spark.table(_TABLE).columns

    def append(summary: Mapping[str, str], settings: Mapping[str, str]) -> None:
        head = spark.table(f"{_TABLE}.refs").select("snapshot_id").head()
        append_rows(spark, plan, columns, None if head is None else head[0], summary, settings)

    for settings in (FEW_ROWS, {"spark.sql.adaptive.enabled": "true"}):
        append({"batch": "0"}, settings)
        commit(spark, f"DELETE FROM {_TABLE} WHERE _lsn = 1", {}, settings)
        append({}, settings)
        commit(spark, merge_sql(plan), {"batch": "1"}, settings)
        append({}, settings)
    spark.table(_TABLE).where("id > 0").collect()


def _stream(spark: SparkSession, folder: Path) -> None:
    """Run a stream's batches, and use the source that they come from."""
    kafka = {"kafka.bootstrap.servers": NOBODY, "subscribe": "t"}
    spark.readStream.format("kafka").options(**kafka).load()
    spark.read.format("kafka").options(**kafka).load()
    spark.range(5).write.parquet(str(folder / "rows"))
    query = (
        spark.readStream.schema("id bigint").parquet(str(folder / "rows"))
        .writeStream.foreachBatch(_count)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination(PATIENCE_SECONDS)


def _count(batch: DataFrame, _: int) -> None:
    batch.persist().groupBy("id").count().collect()
    batch.unpersist()


def _clients(jvm: Any) -> None:
    """Use what talks to Kafka, the catalog and the object store."""
    properties = jvm.java.util.Properties()
    for key, value in {"bootstrap.servers": NOBODY, "group.id": "classes"}.items():
        properties.put(key, value)
    for name in ("key", "value"):
        properties.put(f"{name}.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer")
    jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties).close()
    catalog, files = jvm.org.apache.iceberg.rest.RESTCatalog(), jvm.org.apache.iceberg.aws.s3.S3FileIO()
    _try(lambda: catalog.initialize("lake", {"uri": f"http://{NOBODY}"}))
    files.initialize({
        "s3.endpoint": f"http://{NOBODY}", "s3.access-key-id": "nobody", "s3.secret-access-key": "nothing",
        "client.region": "us-east-1", "s3.path-style-access": "true", "s3.retry.num-retries": "1",
    })  # fmt: skip
    _try(files.newInputFile("s3://nowhere/nothing").exists)
    files.close()


def _try(call: Callable[[], object]) -> None:
    """Call what fails because nobody listens; by then its classes are loaded."""
    with suppress(JavaRaised):
        call()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
