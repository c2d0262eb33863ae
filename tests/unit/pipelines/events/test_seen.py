"""Which events a stream's table has already."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipelines.events.seen import SeenEvents
from pipelines.lake.append import append_files
from pipelines.lake.arrow_schema import arrow_field, as_rows
from pipelines.lake.catalog import Lake, optional_columns
from pipelines.lake.data_files import FileWriter, Partition
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable
from pipelines.lake.validator import UnchangedValidator
from pipelines.specs.events import Deduplicate
from tests.unit.pipelines.harness import Topic

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULE = Deduplicate(by="id", within="1 hour")


def events(*found: tuple[str | None, float]) -> pa.Table:
    """Events of these identifiers, so many minutes after noon."""
    times = [NOON + timedelta(minutes=minutes) for _, minutes in found]
    return pa.table(
        {"id": pa.array([i for i, _ in found], pa.string()), "at": pa.array(times, pa.timestamp("us", "UTC"))}
    )


@pytest.fixture
def table(spark: SparkSession) -> LakeTable:
    return Lake(spark).create("events", Topic(spark).table, optional_columns(id="string", at="timestamptz"), {})


def seen(spark: SparkSession, folder: Path) -> SeenEvents:
    return SeenEvents(RULE, "at", Storage.of(spark), folder)


def append(spark: SparkSession, table: LakeTable, known: SeenEvents, rows: pa.Table) -> list[bool]:
    """Append what is fresh of ``rows``; which of them that is."""
    fresh = known.fresh(table, rows)
    before, writer = table.snapshot_id, FileWriter(table, Storage.of(spark))
    kept = as_rows(rows.filter(pa.array(fresh)), [arrow_field(column) for column in table.columns])
    file = writer.data(kept, Partition(0, ()))
    writer.finish()
    append_files(table, [file], {}, UnchangedValidator(table, "moved"))
    known.committed(table, before, [(file, kept)])
    return [bool(each) for each in fresh]


CASES: dict[str, tuple[list[tuple[str | None, float]], list[tuple[str | None, float]], list[bool]]] = {
    "another one": ([("a", 0)], [("b", 1)], [True]),
    "sent again": ([("a", 0)], [("a", 5)], [False]),
    "sent again with an earlier time": ([("a", 0)], [("a", -59)], [False]),
    "beyond the time": ([("a", 0)], [("a", 61)], [True]),
    "twice at once": ([("z", 0)], [("a", 0), ("b", 1), ("a", 2)], [True, True, False]),
    "twice at once, far apart": ([("z", 0)], [("a", 0), ("a", 61)], [True, True]),
    "without an identifier": ([(None, 0), ("a", 0)], [(None, 0), (None, 0)], [True, True]),
    "nearest of several": ([("a", 0), ("a", 120)], [("a", 100), ("a", 61)], [False, False]),
}


@pytest.mark.parametrize(("before", "rows", "expected"), CASES.values(), ids=CASES)
def test_fresh(spark: SparkSession, table: LakeTable, tmp_path: Path, before: Any, rows: Any, expected: Any) -> None:
    known = seen(spark, tmp_path)
    append(spark, table, known, events(*before))
    assert append(spark, table, known, events(*rows)) == expected


def test_a_new_process_and_a_rewritten_table_know_the_same(
    spark: SparkSession, table: LakeTable, tmp_path: Path
) -> None:
    known = seen(spark, tmp_path / "one")
    append(spark, table, known, events(("a", 0), ("b", 0)))
    append(spark, table, known, events(("c", 1)))
    assert append(spark, table, seen(spark, tmp_path / "two"), events(("b", 2), ("d", 2))) == [False, True]
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => 'events.{table.name}', options => map('rewrite-all', 'true'))"
    )
    table.refresh()
    assert append(spark, table, known, events(("c", 3), ("d", 3), ("e", 3))) == [False, False, True]
    assert known.rows == 5


def test_an_older_event_after_newer_ones_is_known_again(spark: SparkSession, table: LakeTable, tmp_path: Path) -> None:
    known = seen(spark, tmp_path)
    append(spark, table, known, events(("a", 0)))
    append(spark, table, known, events(("b", 300)))
    append(spark, table, known, events(("c", 301)))
    assert append(spark, table, known, events(("a", 30), ("d", 302))) == [False, True]


def test_what_is_too_old_to_matter_is_given_up(spark: SparkSession, table: LakeTable, tmp_path: Path) -> None:
    known = seen(spark, tmp_path)
    append(spark, table, known, events(("a", 0)))
    append(spark, table, known, events(("b", 300)))
    append(spark, table, known, events(("c", 301)))
    assert known.rows == 2
    assert len(list(tmp_path.rglob("*.npy"))) == 2
