"""Tables whose key changes in the source, with events from before and after it on partitions that lag."""

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.ledger.resyncs import Resync
from pipelines.schema.versions import Attribute
from tests.unit.pipelines.mirror.table.test_schema_changes import DOC, ID, NAME, Source, column

CODE = column(2, "code", "text")


def _key(source: Source) -> tuple[list[str], set[str]]:
    """The key by the table's property, and by Iceberg's identifier fields."""
    table = Lake(source.spark).table("shop", source.topic.table)
    assert table is not None
    return json.loads(table.properties["lakehouse.key-columns"]), set(table._table.schema().identifierFieldNames())


def test_another_column_becomes_the_key_while_a_partition_lags(spark: SparkSession) -> None:
    source = Source(spark, ID, CODE, DOC)
    source.mirrored(*(source.write("c", i, f"code {i}", "old") for i in (1, 2, 3, 4)))
    lagging = [source.write("u", 1, "code 1", "lagged", partition=0), source.write("d", 2, None, None, partition=0)]
    source.alter(ID, CODE, DOC, keys=(2,))
    newer = [
        source.write("u", 1, "code 1", "newest", partition=1),
        source.write("d", None, "code 3", None, partition=1),
        source.write("c", 4, "code 5", "the id again", partition=1),
    ]
    batch = source.topic.batch([*lagging, *newer])
    source.topic.apply(source.mirror, batch.where(F.col("partition") == 1), 1)
    rows = [(1, "code 1", "newest"), (4, "code 4", "old"), (4, "code 5", "the id again")]
    assert source.rows("id", "code", "doc") == rows
    source.topic.apply(source.mirror, batch.where(F.col("partition") == 0), 2)
    assert source.rows("id", "code", "doc") == rows
    assert _key(source) == (["code"], {"code"})
    assert source.history() == ["rekey id to code"]
    source.topic.assert_ledger_is_whole()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (column(1, "id", "int4"), column(1, "id", "int8")),
        (column(1, "id", "int8"), column(1, "number", "int8")),
    ],
    ids=["widened", "renamed"],
)
@pytest.mark.parametrize("late", [None, 1, 0])
@pytest.mark.slow
def test_a_key_that_is_written_in_another_way_moves_rows_to_other_partitions(
    spark: SparkSession, before: Attribute, after: Attribute, late: int | None
) -> None:
    source = Source(spark, before, DOC)
    source.mirrored(source.write("c", 9, "first", partition=1))
    older = [source.write("c", i, "old", partition=1) for i in (1, 2, 3)]
    source.alter(after, DOC)
    newer = [source.write("u", 1, "new", partition=0), source.write("d", 3, None, partition=0)]
    batch = source.topic.batch([*older, *newer])
    parts = [batch] if late is None else [batch.where(F.col("partition") == p) for p in (1 - late, late)]
    for number, part in enumerate(parts, 1):
        source.topic.apply(source.mirror, part, number)
    rows = spark.table(f"lake.shop.{source.topic.table}").select(after.name, "doc").collect()
    assert sorted(tuple(row) for row in rows) == [(1, "new"), (2, "old"), (9, "first")]
    assert _key(source) == ([after.name], {after.name})
    assert not any(change.startswith("rekey") for change in source.history())
    source.topic.assert_ledger_is_whole()


def test_a_table_has_its_source_s_key_also_where_its_first_records_have_none(spark: SparkSession) -> None:
    source = Source(spark, ID, DOC)
    first = [source.write("c", 1, "one"), source.write("c", 2, "two"), source.write("u", 1, "newer"),
             source.write("d", 2, None)]  # fmt: skip
    source.mirrored(*((None, *record[1:]) for record in first))
    assert _key(source) == (["id"], {"id"})
    assert source.rows("id", "doc") == [(1, "newer")]
    source.mirrored(source.write("u", 1, "newest"), source.write("c", 3, "three"))
    assert source.rows("id", "doc") == [(1, "newest"), (3, "three")]


def test_the_old_keys_column_goes_with_it_and_no_row_came_after(spark: SparkSession) -> None:
    source = Source(spark, ID, CODE, DOC)
    source.mirrored(source.write("c", 1, "a", "one"), source.write("c", 2, "b", "two"))
    source.alter(CODE, DOC, keys=(2, 3))
    source.mirrored(schema_changed=True)
    assert _key(source) == (["code", "doc"], {"code", "doc"})
    table = spark.table(f"lake.shop.{source.topic.table}")
    assert "id" not in table.columns
    source.mirrored(source.write("d", "a", "one"))
    assert [tuple(row) for row in table.select("code", "doc").collect()] == [("b", "two")]


def test_a_key_of_new_numbers_that_no_event_tells_holds_the_table(spark: SparkSession) -> None:
    source = Source(spark, NAME, keys=())
    source.mirrored(source.write("c", "a"), source.write("c", "a"), source.write("c", "b"))
    source.alter(NAME, column(3, "id", "int8"), keys=(3,), reread=True)
    for _ in range(2):
        with pytest.raises(StopPipeline, match=r"no value in id, .* run `lakehouse resync public.t"):
            source.mirrored(source.write("c", "c", 4))


def test_a_row_that_lacks_the_new_key_holds_the_table(spark: SparkSession) -> None:
    source = Source(spark, ID, CODE, DOC)
    source.mirrored(source.write("c", 1, None, "its code is in a dead letter"))
    source.alter(ID, CODE, DOC, keys=(2,))
    with pytest.raises(StopPipeline, match="no value in code, the key in the source now"):
        source.mirrored(source.write("c", 2, "b", "two"))


@pytest.mark.slow
def test_a_table_is_made_whole_from_a_topic_with_several_keys(spark: SparkSession) -> None:
    source = Source(spark, ID, CODE, DOC)
    source.mirrored(*(source.write("c", i, f"code {i}", "old") for i in (1, 2, 3)), source.write("d", 3, None, None))
    source.alter(ID, CODE, DOC, keys=(2,))
    source.mirrored(source.write("u", 1, "code 1", "new"), source.write("c", 9, "code 3", "again"))
    source.alter(ID, CODE, DOC, keys=(1, 2))
    source.mirrored(source.write("u", 2, "code 2", "newest"))
    rows = source.rows("id", "code", "doc")
    assert rows == [(1, "code 1", "new"), (2, "code 2", "newest"), (9, "code 3", "again")]
    spark.sql(f"DROP TABLE lake.shop.{source.topic.table}")
    source.mirrored(source.write("c", 10, "code 10", "last"))
    assert source.rows("id", "code", "doc") == [*rows, (10, "code 10", "last")]
    assert set(_key(source)[0]) == {"id", "code"}
    source.topic.assert_ledger_is_whole()


@pytest.mark.parametrize("newer_came", [False, True])
@pytest.mark.slow
def test_a_key_that_is_told_of_while_the_table_is_being_made(spark: SparkSession, newer_came: bool) -> None:
    source = Source(spark, ID, DOC, keys=())
    events = [source.write("c", 1, "one"), source.write("c", 2, "two")]
    source.alter(ID, DOC)
    source.topic.schema_log.hold_back()
    newer = source.write("u", 1, "newest")
    source.mirrored(*events, *([newer] if newer_came else []))
    source.mirrored(*([] if newer_came else [newer]))
    assert source.rows("id", "doc") == [(1, "newest"), (2, "two")]
    assert _key(source)[0] == ["id"]
    source.topic.assert_ledger_is_whole()


def test_a_key_that_another_thread_reads_of_is_followed_in_the_next_batch(spark: SparkSession) -> None:
    source = Source(spark, ID, DOC, keys=())
    source.mirrored(source.write("c", 1, "one"), source.write("c", 2, "two"))
    source.alter(ID, DOC)
    source.topic.schema_log.hold_back(looks=2)
    source.mirrored(schema_changed=True)
    assert _key(source)[0] == []
    source.mirrored(schema_changed=True)
    assert _key(source)[0] == ["id"]


def test_another_table_of_the_name_that_is_told_of_while_its_rows_are_read(spark: SparkSession) -> None:
    source = Source(spark, ID, DOC)
    source.mirrored(source.write("c", 1, "the former table's"), source.write("c", 2, "the former table's"))
    source.alter(ID, DOC, NAME, relation=2)
    source.topic.schema_log.hold_back()
    source.mirrored(source.write("c", 2, "its own", "a"))
    assert source.rows("id", "doc", "name") == [(2, "its own", "a")]
    source.topic.assert_ledger_is_whole()


def test_another_table_of_the_name_may_have_another_key(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"))
    late = source.write("c", 7, "late")
    source.alter()
    source.alter(column(1, "name", "int8"), column(2, "id", "text"), relation=2)
    source.mirrored(late, source.write("c", 5, "other"), schema_changed=True)
    assert source.rows("name", "id") == [(5, "other")]
    assert _key(source)[0] == ["name"]
    assert source.topic.assert_ledger_is_whole().superseded == 1
    assert source.topic.letters.kept == {}


def test_a_resync_lets_rows_go_whose_new_key_no_event_tells(spark: SparkSession) -> None:
    source = Source(spark, NAME, keys=())
    source.mirrored(source.write("c", "a"), source.write("c", "b"))
    source.alter(NAME, column(3, "id", "int8"), keys=(3,), reread=True)
    with pytest.raises(StopPipeline, match="lakehouse resync"):
        source.mirrored(source.write("c", "c", 4))
    start = dict(enumerate(source.topic.offsets))
    source.topic.resyncs.newest = Resync("one", start)
    source.mirrored(source.write("r", "a", 1), source.write("r", "b", 2), source.write("r", "c", 4))
    source.topic.resyncs.newest = Resync("one", start, dict(enumerate(source.topic.offsets)))
    source.mirrored(source.write("c", "d", 5))
    assert source.rows("name", "id") == [("a", 1), ("b", 2), ("c", 4), ("d", 5)]
    assert _key(source) == (["id"], set()), "older files lack the column, which so can't be required"
    source.topic.assert_ledger_is_whole()


def test_rows_that_share_a_key_for_a_moment_are_found_by_all_of_their_values(spark: SparkSession) -> None:
    """As where a deferrable key is swapped: each row's delete comes after the other row has come under its key."""
    source = Source(spark, ID, NAME, by_rows=True)
    source.mirrored(*(source.write("c", i, f"row {i}") for i in (1, 2, 3)))
    swapped = [
        source.write("d", 1, "row 1"), source.write("c", 2, "row 1"),
        source.write("d", 2, "row 2"), source.write("c", 1, "row 2"),
    ]  # fmt: skip
    source.mirrored(*swapped, source.write("u", 3, "new", old=(3, "row 3")))
    assert source.rows("id", "name") == [(1, "row 2"), (2, "row 1"), (3, "new")]
    assert _key(source) == ([], set())
    source.topic.assert_ledger_is_whole()


def test_a_key_that_no_longer_tells_rows_apart_is_given_up(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(*(source.write("c", i, f"row {i}") for i in (1, 2)))
    source.alter(ID, NAME, by_rows=True)
    swapped = [
        source.write("d", 1, "row 1"), source.write("c", 2, "row 1"),
        source.write("d", 2, "row 2"), source.write("c", 1, "row 2"),
    ]  # fmt: skip
    source.mirrored(*swapped)
    assert source.rows("id", "name") == [(1, "row 2"), (2, "row 1")]
    assert source.history() == ["rekey id to nothing"]
