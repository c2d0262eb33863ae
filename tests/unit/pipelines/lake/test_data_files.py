"""A file that is written directly is, to Iceberg and to those that read it, as one of Iceberg's own writer."""

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipelines.lake.arrow_schema import as_rows
from pipelines.lake.catalog import Lake
from pipelines.lake.data_files import FileWriter, Partition
from pipelines.lake.row_delta import Moved, commit_row_delta
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable

VALUES = """
SELECT * FROM VALUES
 (1, 1L, true, 1.5f, 2.5d, 1.10BD, 12345678901234567890.12BD, DATE'2024-02-29', TIMESTAMP'2024-01-01 00:00:00.000001',
  TIMESTAMP_NTZ'2024-01-01 12:00:00', 'short', X'00FF', array(1, null, 3), array('a', 'b')),
 (2, -5L, false, float('nan'), double('nan'), -1.10BD, -0.01BD, DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59',
  TIMESTAMP_NTZ'0001-01-01 00:00:00', repeat('\u00e4longtext', 9), CAST(repeat('\u00fe', 40) AS binary), array(),
  array(null)),
 (3, null, null, null, null, null, null, null, null, null, null, null, null, null)
AS v (i, l, b, f, d, small, large, day, at, local, text, bytes, numbers, words)"""
TYPES = (
    "i int NOT NULL, l bigint, b boolean, f float, d double, small decimal(5,2), large decimal(22,2), day date,"
    " at timestamp, local timestamp_ntz, text string, bytes binary, numbers array<int>, words array<string>"
)


def table_of(spark: SparkSession, name: str, rest: str = "") -> LakeTable:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.direct")
    spark.sql(f"CREATE TABLE lake.direct.{name} ({TYPES}) USING iceberg {rest}")
    table = Lake(spark).table("direct", name)
    assert table is not None
    return table


def files(table: LakeTable) -> list[dict[str, Any]]:
    table.refresh()
    java, found = table.java, []
    tasks = java.newScan().includeColumnStats().planFiles()
    for task in tasks.iterator():
        found.append(json.loads(table.jvm.org.apache.iceberg.ContentFileParser.toJson(task.file(), java.spec())))
    tasks.close()
    return found


def test_a_file_tells_of_each_column_what_icebergs_own_does(spark: SparkSession) -> None:
    own, direct = table_of(spark, "own"), table_of(spark, "written")
    rows = spark.sql(VALUES)
    rows.coalesce(1).writeTo("lake.direct.own").append()
    writer = FileWriter(direct, Storage.of(spark))
    written = writer.data(as_rows(rows.toArrow(), list(writer.schema)), Partition(0, ()))
    writer.finish()
    commit_row_delta(direct, [written], [], {"told": "yes"})
    (mine,), (theirs,) = files(direct), files(own)
    different = ("file-path", "file-size-in-bytes", "column-sizes")
    assert {k: v for k, v in mine.items() if k not in different} == {
        k: v for k, v in theirs.items() if k not in different
    }
    assert mine["column-sizes"]["keys"] == theirs["column-sizes"]["keys"]
    assert direct.summary["told"] == "yes"
    by_spark = [spark.table(f"lake.direct.{name}").orderBy("i").collect() for name in ("written", "own")]
    assert str(by_spark[0]) == str(by_spark[1])
    schemas = [pq.read_schema(Storage.of(spark).open(file["file-path"])) for file in (mine, theirs)]
    ids = [[(field.name, (field.metadata or {})[b"PARQUET:field_id"]) for field in schema] for schema in schemas]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    "term", ["bucket(4, l)", "days(at)", "months(day)", "hours(local)", "truncate(2, text)", "b", "small"]
)
def test_a_partition_is_as_icebergs_own(spark: SparkSession, term: str) -> None:
    from pipelines.lake.partition_values import Partitioning

    name = "".join(c for c in term if c.isalnum())
    own = table_of(spark, f"own_{name}", f"PARTITIONED BY ({term})")
    direct = table_of(spark, f"written_{name}", f"PARTITIONED BY ({term})")
    rows = spark.sql(VALUES)
    rows.coalesce(1).writeTo(f"lake.direct.own_{name}").append()
    partitioning, writer = Partitioning.of(direct), FileWriter(direct, Storage.of(spark))
    assert partitioning is not None
    found = partitioning.with_values(rows).toArrow()
    values, partitions = as_rows(found, list(writer.schema)), partitioning.partitions(found)
    written = [writer.data(values.take([i]), partition) for i, partition in enumerate(partitions)]
    writer.finish()
    commit_row_delta(direct, written, [], {})

    def told(table: LakeTable) -> set[str]:
        return {json.dumps(file["partition"]) for file in files(table)}

    assert told(direct) == told(own)
    assert len(spark.table(f"lake.direct.written_{name}").collect()) == 3


def test_nothing_is_laid_over_what_somebody_else_has_committed(spark: SparkSession) -> None:
    table = table_of(spark, "moved")
    spark.sql(VALUES).coalesce(1).writeTo("lake.direct.moved").append()
    writer = FileWriter(table, Storage.of(spark))
    written = writer.data(as_rows(spark.sql(VALUES).toArrow(), list(writer.schema)), Partition(0, ()))
    writer.finish()
    with pytest.raises(Moved, match=r"direct\.moved"):
        commit_row_delta(table, [written], [], {})
    assert spark.table("lake.direct.moved").count() == 3
