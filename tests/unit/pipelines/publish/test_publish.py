"""What a role is shown of a table, as it changes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.lake.catalog import Lake
from pipelines.lake.properties import PUBLISHED_SNAPSHOT
from pipelines.lake.table import LakeTable
from pipelines.publish import refresh
from pipelines.publish.dataset import Dataset
from pipelines.publish.refresh import Refresher
from quality.audience import Audience
from quality.contract import Column, Contract
from tests.unit.pipelines.harness import Topic, change, create, delete, insert, remove, update, vault_of

COLUMNS = (Column("id", key=1), Column("name", classification="personal", description="Who."), Column("doc"))
ALL = {"id": None, "name": None, "doc": None}


class Shown:
    """A topic, its table, and what a role is shown of it."""

    def __init__(self, spark: SparkSession, columns: Any = ALL, rows: str | None = None, keyed: bool = True) -> None:
        self.spark, self.topic = spark, Topic(spark, keyed)
        self.mirror = self.topic.mirror()
        self.refresher = Refresher(spark, None, vault_of(spark))
        self.batches = 0
        self.define(columns, rows)

    def define(self, columns: Any, rows: str | None = None) -> None:
        contract = Contract(("public", self.topic.table), "1", "active", COLUMNS)
        self.dataset = Dataset(("shop", self.topic.table), contract, Audience("restricted", columns, rows))

    def apply(self, *events: tuple[Any, ...]) -> None:
        self.topic.apply(self.mirror, self.topic.batch(list(events)), self.batches)
        self.batches += 1

    def refresh(self) -> bool | None:
        """Whether it was made anew; None: nothing was done."""
        done = self.refresher.refresh(self.dataset)
        return None if done is None else done.anew

    @property
    def table(self) -> LakeTable:
        found = Lake(self.spark).table(*self.dataset.name)
        assert found is not None
        return found

    def rows(self) -> list[tuple[Any, ...]]:
        names = [name for name in self.table.column_types if not name.startswith("_")]
        found = self.spark.table(f"lake.restricted_shop.{self.topic.table}").select(*names).collect()
        return sorted(tuple(row) for row in found)


def test_it_follows_every_change_and_the_same_again_is_nothing(spark: SparkSession) -> None:
    shown = Shown(spark)
    assert shown.refresh() is None, "there is no table yet"
    shown.apply(create(1, 1, "a"), create(2, 2, "b"), create(3, 3, "c"))
    assert shown.refresh() is True
    assert shown.refresh() is None
    shown.apply(update(4, 1, "z"), delete(5, 2), create(6, 4, "d"))
    shown.apply(update(7, 4, "e"))
    assert shown.refresh() is False
    assert shown.rows() == [(1, "z", "d"), (3, "c", "d"), (4, "e", "d")] == shown.topic.rows()
    assert shown.table.summary[PUBLISHED_SNAPSHOT] == str(shown.topic.lake_table().snapshot_id)
    shown.apply(delete(8, 1), create(9, 1, "again"))
    assert shown.refresh() is False
    assert shown.rows() == shown.topic.rows()


def test_columns_are_left_out_or_masked(spark: SparkSession) -> None:
    shown = Shown(spark, {"id": None, "name": "hash"})
    shown.apply(create(1, 1, "a"), create(2, 2, "b"))
    shown.refresh()
    hashed = vault_of(spark).keys.hashed
    assert shown.rows() == [(1, hashed("a")), (2, hashed("b"))]
    assert set(shown.table.column_types) == {"id", "name", "_kafka_partition", "_kafka_offset", "_committed_at"}
    assert shown.table.comments["name"] == "Who. [personal] [protected: hash]"
    assert shown.table.properties["lakehouse.published-protected"] == '{"name": "hash"}'


def test_a_row_comes_and_goes_as_its_condition_holds(spark: SparkSession) -> None:
    shown = Shown(spark, rows="name <> 'secret'")
    shown.apply(create(1, 1, "a"), create(2, 2, "secret"))
    shown.refresh()
    assert [row[0] for row in shown.rows()] == [1]
    shown.apply(update(3, 1, "secret"), update(4, 2, "b"))
    assert shown.refresh() is False
    assert [row[0] for row in shown.rows()] == [2]


def test_rows_without_a_key_are_as_many_as_there_are(spark: SparkSession) -> None:
    shown = Shown(spark, keyed=False)
    same = (1, "a", "d")
    shown.apply(insert(1, same), insert(2, same), insert(3, same))
    shown.refresh()
    shown.apply(remove(4, same), change(5, same, (2, "b", "d")))
    assert shown.refresh() is False
    assert shown.rows() == [(1, "a", "d"), (2, "b", "d")]


@pytest.mark.parametrize("columns", [{"id": None}, {"id": None, "name": "mask"}])
def test_of_what_is_shown_no_longer_nothing_is_left(spark: SparkSession, columns: Any) -> None:
    shown = Shown(spark)
    shown.apply(create(1, 1, "a-long-name"), create(2, 2, "another-name"))
    shown.refresh()
    before = shown.table.snapshot_id
    shown.define(columns)
    assert shown.refresh() is True
    assert before not in shown.table.snapshot_times()
    files = [row.file_path for row in spark.table(f"{shown.table.sql_name}.all_data_files").collect()]
    found = spark.read.parquet(*files)
    assert "doc" not in found.columns
    assert "a-long-name" not in repr(found.collect())
    assert shown.refresh() is None


def test_values_that_no_record_has_written_make_it_anew(spark: SparkSession) -> None:
    shown = Shown(spark)
    shown.apply(create(1, 1, "a"), create(2, 2, "b"))
    shown.refresh()
    spark.sql(f"UPDATE lake.shop.{shown.topic.table} SET doc = 'filled'")
    assert shown.refresh() is True
    assert [row[2] for row in shown.rows()] == ["filled", "filled"]


@pytest.mark.slow
def test_it_doesnt_rot(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "MOST_FILES", 6)
    monkeypatch.setattr(refresh, "MOST_DELETES", 4)
    shown = Shown(spark)
    shown.apply(create(1, 1, "a"), create(2, 2, "b"))
    shown.refresh()
    for number in range(10):
        shown.apply(update(10 + number, 1, f"{number}"))
        shown.refresh()
    assert int(shown.table.summary["total-data-files"]) < 8
    assert int(shown.table.summary["total-delete-files"]) < 6
    assert shown.rows() == shown.topic.rows()


@pytest.fixture
def computed(spark: SparkSession, unique: Callable[[], str]) -> Iterator[str]:
    """A table whose rows no record wrote, of which two look the same to who doesn't see the key."""
    name = unique()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.marts")
    spark.sql(
        f"CREATE TABLE lake.marts.{name} (id int, name string, seen array<string>) USING iceberg"
        " TBLPROPERTIES ('lakehouse.kind' = 'derived')"
    )
    spark.sql(f"INSERT INTO lake.marts.{name} VALUES (1, 'a', array('x')), (2, 'a', array('x')), (3, NULL, NULL)")
    yield name
    spark.sql(f"DROP TABLE lake.marts.{name}")


def test_rows_that_were_computed_are_told_apart_by_what_is_shown(spark: SparkSession, computed: str) -> None:
    contract = Contract(("marts", computed), "1", "active", COLUMNS)
    dataset = Dataset(("marts", computed), contract, Audience("restricted", {"name": None, "seen": None}, None))
    refresher = Refresher(spark, None, vault_of(spark))

    def shown() -> list[tuple[Any, ...]]:
        return sorted(
            map(tuple, spark.sql(f"SELECT name, seen FROM lake.restricted_marts.{computed}").collect()), key=repr
        )

    first = refresher.refresh(dataset)
    assert first is not None
    assert first.anew
    assert shown() == [("a", ["x"]), ("a", ["x"]), (None, None)]
    assert refresher.refresh(dataset) is None
    spark.sql(f"UPDATE lake.marts.{computed} SET name = 'b' WHERE id = 3")
    spark.sql(f"DELETE FROM lake.marts.{computed} WHERE id = 1")
    then = refresher.refresh(dataset)
    assert then is not None
    assert not then.anew
    assert shown() == [("a", ["x"]), ("b", None)]
    table = Lake(spark).table(*dataset.name)
    assert table is not None
    assert set(table.column_types) == {"name", "seen", "_nth"}
    # What is written once more as it was changes nothing that is shown.
    spark.sql(f"UPDATE lake.marts.{computed} SET id = 9 WHERE id = 2")
    refresher.refresh(dataset)
    table.refresh()
    assert table.summary.get("added-records", "0") == "0"
