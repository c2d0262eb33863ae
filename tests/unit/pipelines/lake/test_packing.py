"""Small files are packed without Spark: the rows stay, files go, and no position is left in a file that is gone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.lake.actions import RewriteResult
from pipelines.lake.catalog import Lake
from pipelines.lake.packing import Packing, plan
from pipelines.lake.table import LakeTable
from pipelines.specs.layout import Term

BY_ROW = "'format-version'='2', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'"
ALL = Packing(small=1 << 20, fewest=2, share=0.1, target=1 << 20, most=1 << 25)


def table_of(
    spark: SparkSession, name: str, columns: str, granularity: str = "partition", partitioned: str = ""
) -> LakeTable:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.packed")
    spark.sql(
        f"CREATE TABLE lake.packed.{name} ({columns}) USING iceberg {partitioned}"
        f" TBLPROPERTIES ({BY_ROW}, 'write.delete.granularity'='{granularity}')"
    )
    return looked_up(spark, name)


def looked_up(spark: SparkSession, name: str) -> LakeTable:
    table = Lake(spark).table("packed", name)
    assert table is not None
    return table


def counts(table: LakeTable) -> tuple[int, int, int]:
    """Data files, files of deletes, deleted rows."""
    table.refresh()
    total = {name: int(table.summary[f"total-{name}"]) for name in ("data-files", "delete-files", "position-deletes")}
    return total["data-files"], total["delete-files"], total["position-deletes"]


def pack(spark: SparkSession, table: LakeTable, order: Sequence[Term], packing: Packing) -> RewriteResult | None:
    planned = plan(spark, table, order, packing)
    return planned and planned.commit()


def rows(spark: SparkSession, table: LakeTable) -> list[str]:
    return sorted(map(str, spark.table(table.sql_name).collect()))


@dataclass(frozen=True)
class Case:
    """What is done to a table of ten rows before it is packed; what is there after it.

    ``after``: data files, files of deletes, deleted rows.
    """

    statements: tuple[str, ...]
    after: tuple[int, int, int]
    columns: str = "id bigint NOT NULL, v string"
    packing: Packing = ALL
    granularity: str = "partition"
    partitioned: str = ""


MORE = "INSERT INTO {0} SELECT id, cast(id AS string) FROM range(10, 12)"
SMALL_FILES = Packing(small=20_000, fewest=2, share=0.5, target=1 << 20, most=1 << 25)
BESIDE_A_LARGE_FILE = (
    "INSERT INTO {0} SELECT /*+ COALESCE(1) */ id, sha2(cast(id AS string), 512) FROM range(100, 2100)",
    MORE,
    "DELETE FROM {0} WHERE id IN (3, 11, 100)",
    "DELETE FROM {0} WHERE id IN (200, 300)",
)
CASES = {
    "two files": Case((MORE,), (1, 0, 0)),
    "rows are deleted": Case((MORE, "DELETE FROM {0} WHERE id IN (3, 11)"), (1, 0, 0)),
    "rows are deleted, by file": Case((MORE, "DELETE FROM {0} WHERE id IN (3, 11)"), (1, 0, 0), granularity="file"),
    "all rows are deleted": Case(("DELETE FROM {0} WHERE id < 10 AND v <> 'x'", MORE, MORE), (1, 0, 0)),
    "a large file is left, with its deletes": Case(BESIDE_A_LARGE_FILE, (2, 1, 3), packing=SMALL_FILES),
    "a large file is left, with its deletes by file": Case(
        BESIDE_A_LARGE_FILE, (2, 1, 3), packing=SMALL_FILES, granularity="file"
    ),
    "a column has another name, another type and one is new": Case(
        (
            "ALTER TABLE {0} RENAME COLUMN v TO w",
            "ALTER TABLE {0} ADD COLUMN n int",
            "INSERT INTO {0} VALUES (20, 'w', 7)",
            "ALTER TABLE {0} ALTER COLUMN n TYPE bigint",
            "INSERT INTO {0} VALUES (21, null, 8)",
        ),
        (1, 0, 0),
    ),
    "by partition": Case(
        (MORE, "INSERT INTO {0} SELECT id, '10' FROM range(10, 12)", "DELETE FROM {0} WHERE id = 3"),
        (3, 1, 1),
        partitioned="PARTITIONED BY (v)",
    ),
    "lists": Case(
        ("INSERT INTO {0} SELECT id, array(cast(id AS string), null) FROM range(10, 12)",),
        (1, 0, 0),
        columns="id bigint NOT NULL, v array<string>",
    ),
    "too few files": Case(
        (MORE,), (3, 0, 0), packing=Packing(small=1 << 20, fewest=4, share=0.1, target=1 << 20, most=1 << 25)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_stay_and_files_go(spark: SparkSession, unique: Callable[[], str], case: Case) -> None:
    table = table_of(spark, unique(), case.columns, case.granularity, case.partitioned)
    first = "array('a', null)" if "array" in case.columns else "'v'"
    spark.sql(f"INSERT INTO {table.sql_name} SELECT /*+ COALESCE(1) */ id, {first} FROM range(10)")
    for statement in case.statements:
        spark.sql(statement.format(table.sql_name))
    table.refresh()
    before = rows(spark, table)
    assert pack(spark, table, (), case.packing) is not None
    assert rows(spark, table) == before
    assert counts(table) == case.after
    assert pack(spark, table, (), case.packing) is not None
    assert counts(table) == case.after


def test_rows_are_sorted(spark: SparkSession, unique: Callable[[], str]) -> None:
    table = table_of(spark, unique(), "id bigint NOT NULL, v string")
    spark.sql(f"INSERT INTO {table.sql_name} VALUES (2, 'é'), (1, null), (4, 'a')")
    spark.sql(f"INSERT INTO {table.sql_name} VALUES (3, 'a'), (5, 'Z')")
    table.refresh()
    assert pack(spark, table, (Term("identity", "v"), Term("identity", "id")), ALL) is not None
    assert counts(table) == (1, 0, 0)
    assert [tuple(row) for row in spark.table(table.sql_name).collect()] == [
        (1, None), (5, "Z"), (3, "a"), (4, "a"), (2, "é"),
    ]  # fmt: skip


def test_what_is_nested_stays_as_it_is(spark: SparkSession, unique: Callable[[], str]) -> None:
    table = table_of(spark, unique(), "id bigint NOT NULL, v struct<a: int, l: array<string>>, m map<string, double>")
    spark.sql(f"INSERT INTO {table.sql_name} VALUES (1, named_struct('a', 1, 'l', array('x', null)), map('k', 0.5D)),"
              " (2, null, null)")  # fmt: skip
    spark.sql(f"ALTER TABLE {table.sql_name} ADD COLUMN v.b string")
    spark.sql(f"INSERT INTO {table.sql_name} VALUES (3, named_struct('a', 3, 'l', array(), 'b', 'new'), map())")
    table.refresh()
    before = everything(spark, table)
    done = pack(spark, table, (), ALL)
    assert everything(spark, table) == before
    assert counts(table)[0] == (1 if done is not None else 2)


def everything(spark: SparkSession, table: LakeTable) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.table(table.sql_name).orderBy("id").collect()]


LEFT = {
    "an order by a transform": ("id bigint NOT NULL, v string", "'v'", (Term("bucket", "id", 4),), ALL),
    "much": ("id bigint NOT NULL, v string", "'v'", (), Packing(1 << 20, 2, 0.1, 1 << 20, 100)),
}


@pytest.mark.parametrize(("columns", "value", "order", "packing"), LEFT.values(), ids=LEFT)
def test_what_it_can_t_do_is_left_alone(
    spark: SparkSession, unique: Callable[[], str], columns: str, value: str, order: tuple[Term, ...], packing: Packing
) -> None:
    table = table_of(spark, unique(), columns)
    for _ in range(2):
        spark.sql(f"INSERT INTO {table.sql_name} SELECT /*+ COALESCE(1) */ id, {value} FROM range(3)")
    before = counts(table)
    assert pack(spark, table, order, packing) is None
    assert counts(table) == before


def test_rows_that_were_deleted_meanwhile_don_t_come_back(spark: SparkSession, unique: Callable[[], str]) -> None:
    table = table_of(spark, unique(), "id bigint NOT NULL, v string")
    for _ in range(2):
        spark.sql(f"INSERT INTO {table.sql_name} SELECT id, 'v' FROM range(3)")
    table.refresh()
    other = looked_up(spark, table.name)
    spark.sql(f"DELETE FROM {other.sql_name} WHERE id = 1 AND v = 'v'")
    with pytest.raises(Py4JJavaError, match=r"[Mm]issing required files|found new"):
        pack(spark, table, (), ALL)
    assert sorted(row.id for row in spark.table(other.sql_name).collect()) == [0, 0, 2, 2]
