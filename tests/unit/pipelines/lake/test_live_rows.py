"""The live rows of a table that have certain keys, after whatever has been done to it."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.lake.catalog import Lake
from pipelines.lake.file_rows import Budget
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable

KEYS = pa.table({"id": pa.array([1, 2, 3, 500], pa.int64())})


def table_of(spark: SparkSession, name: str) -> LakeTable:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.live")
    spark.sql(
        f"CREATE TABLE lake.live.{name} (id bigint NOT NULL, v string, _lsn bigint, _op string) USING"
        " iceberg TBLPROPERTIES ('format-version'='2', 'write.update.mode'='merge-on-read',"
        " 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"INSERT INTO lake.live.{name} SELECT id, 'v', 10 + id, if(id = 2, 'r', 'c') FROM range(10)")
    table = Lake(spark).table("live", name)
    assert table is not None
    return table


def found(live: LiveRows, table: LakeTable, keys: pa.Table = KEYS) -> dict[int, tuple[int, bool]] | None:
    """Key to log position and whether a snapshot read it, each confirmed by the row at that place."""
    table.refresh()
    rows = live.find(table, keys)
    return None if rows is None else {keys["id"][r.change].as_py(): (r.log_position, r.read) for r in rows}


CHANGES: dict[str, tuple[str, dict[int, tuple[int, bool]]]] = {
    "nothing": ("SELECT 1", {1: (11, False), 2: (12, True), 3: (13, False)}),
    "a row is deleted": ("DELETE FROM {0} WHERE id = 1", {2: (12, True), 3: (13, False)}),
    "a row is updated": ("UPDATE {0} SET _lsn = 99, _op = 'u' WHERE id = 2",
                         {1: (11, False), 2: (99, False), 3: (13, False)}),
    "a row is added": ("INSERT INTO {0} VALUES (500, 'n', 50, 'c')",
                       {1: (11, False), 2: (12, True), 3: (13, False), 500: (50, False)}),
    "all goes": ("DELETE FROM {0}", {}),
    "a column gets another name": ("ALTER TABLE {0} RENAME COLUMN v TO w",
                                   {1: (11, False), 2: (12, True), 3: (13, False)}),
    "a row is without a log position": ("UPDATE {0} SET _lsn = NULL WHERE id = 3",
                                        {1: (11, False), 2: (12, True), 3: (2**63 - 1, False)}),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_is_found_follows_the_table(
    spark: SparkSession, unique: Callable[[], str], statement: str, expected: dict[int, tuple[int, bool]]
) -> None:
    table, live = table_of(spark, unique()), LiveRows(Storage.of(spark), Budget(1000))
    assert found(live, table) == {1: (11, False), 2: (12, True), 3: (13, False)}
    spark.sql(statement.format(table.sql_name))
    assert found(live, table) == expected


def test_files_that_are_put_together_are_read_anew(spark: SparkSession, unique: Callable[[], str]) -> None:
    name, budget = unique(), Budget(1000)
    table, live = table_of(spark, name), LiveRows(Storage.of(spark), budget)
    before = found(live, table)
    spark.sql(f"CALL lake.system.rewrite_data_files(table => 'live.{name}', options => map('rewrite-all', 'true'))")
    assert found(live, table) == before
    # Of files that are gone nothing is remembered.
    assert budget.used == 10
    live.forget()
    assert budget.used == 0


def test_what_there_is_no_room_for_is_not_looked_up(spark: SparkSession, unique: Callable[[], str]) -> None:
    table, budget = table_of(spark, unique()), Budget(9)
    assert found(LiveRows(Storage.of(spark), budget), table) is None
    assert budget.used == 0


def test_keys_that_are_lists_are_not_looked_up(spark: SparkSession, unique: Callable[[], str]) -> None:
    name = unique()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.live")
    spark.sql(f"CREATE TABLE lake.live.{name} (id array<string>, _lsn bigint, _op string) USING iceberg")
    spark.sql(f"INSERT INTO lake.live.{name} VALUES (array('a'), 1, 'c')")
    table = Lake(spark).table("live", name)
    assert table is not None
    keys = pa.table({"id": pa.array([["a"]], pa.list_(pa.string()))})
    assert LiveRows(Storage.of(spark), Budget(1000)).find(table, keys) is None


def test_files_without_any_of_the_keys_are_not_read(spark: SparkSession, unique: Callable[[], str]) -> None:
    table, budget = table_of(spark, unique()), Budget(9)
    assert found(LiveRows(Storage.of(spark), budget), table, pa.table({"id": pa.array([500], pa.int64())})) == {}


def test_what_is_needed_now_takes_the_room_of_what_is_not(spark: SparkSession, unique: Callable[[], str]) -> None:
    table, budget = table_of(spark, unique()), Budget(15)
    spark.sql(f"INSERT INTO {table.sql_name} SELECT id, 'v', id, 'c' FROM range(100, 110)")
    live = LiveRows(Storage.of(spark), budget)
    assert found(live, table, pa.table({"id": pa.array([1], pa.int64())})) == {1: (11, False)}
    assert found(live, table, pa.table({"id": pa.array([105], pa.int64())})) == {105: (105, False)}
    assert budget.used == 10
    assert found(live, table, pa.table({"id": pa.array([1, 105], pa.int64())})) is None
    assert budget.used == 10
