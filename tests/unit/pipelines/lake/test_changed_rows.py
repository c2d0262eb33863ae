"""What changed between two snapshots, read from the files that did: of a table whose key is required."""

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from pipelines.lake.arrow_schema import arrow_field
from pipelines.lake.catalog import Lake
from pipelines.lake.changed_rows import changed_files, read_changed
from pipelines.lake.storage import Storage

BY_ROW = "'format-version'='2', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'"


@dataclass(frozen=True)
class Case:
    """What is done to the rows 0 to 9, and the rows that came or went."""

    statements: tuple[str, ...]
    changed: tuple[tuple[int, str | None], ...]


CASES = {
    "nothing": Case((), ()),
    "rows come": Case(("INSERT INTO {0} VALUES (20, 'new')",), ((20, "new"),)),
    "rows go": Case(("DELETE FROM {0} WHERE id = 3",), ((3, "3"),)),
    "a row changes": Case(("UPDATE {0} SET v = 'x' WHERE id = 3",), ((3, "3"), (3, "x"))),
    "a row becomes what it was": Case(("UPDATE {0} SET v = '3' WHERE id = 3",), ()),
    "some come and others go": Case(
        ("INSERT INTO {0} VALUES (20, NULL)", "DELETE FROM {0} WHERE id = 3"), ((3, "3"), (20, None))
    ),
    "a column came before": Case(
        ("ALTER TABLE {0} ADD COLUMN w string", "INSERT INTO {0} VALUES (20, 'new', 'w')"), ((20, "new"),)
    ),
    "a whole file goes": Case(("DELETE FROM {0} WHERE id >= 0",), tuple((each, str(each)) for each in range(10))),
}


@pytest.mark.parametrize("name", CASES)
def test_changed_rows_are_those_that_came_or_went(spark: SparkSession, name: str) -> None:
    case, table = CASES[name], f"c{list(CASES).index(name)}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.changed")
    spark.sql(
        f"CREATE TABLE lake.changed.{table} (id bigint NOT NULL, v string) USING iceberg TBLPROPERTIES ({BY_ROW})"
    )
    spark.sql(f"INSERT INTO lake.changed.{table} SELECT /*+ COALESCE(1) */ id, cast(id AS string) FROM range(10)")
    lake = Lake(spark)
    first = lake.table("changed", table)
    assert first is not None
    before = first.snapshot_id
    for statement in case.statements:
        spark.sql(statement.format(f"lake.changed.{table}"))
    now = lake.table("changed", table)
    assert now is not None
    assert before is not None
    assert now.snapshot_id is not None
    files = changed_files(now, before, now.snapshot_id)
    assert files is not None
    fields = [arrow_field(column) for column in now.columns if column["name"] in ("id", "v")]
    rows = read_changed(Storage.of(spark), files, fields)
    assert sorted((row["id"], row["v"]) for row in rows.to_pylist()) == sorted(case.changed)
