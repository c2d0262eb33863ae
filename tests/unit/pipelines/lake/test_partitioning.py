"""Partitioning and sort order: what a spec may say, and what becomes of a table whose spec says it."""

from dataclasses import replace

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.lake.partitioning import partitioning
from pipelines.specs.layout import Layout, Term
from tests.unit.pipelines.harness import Topic, create, delete, update
from tests.unit.pipelines.mirror.table.test_schema_changes import DOC, ID, NAME, Source

WORDS = [
    ("id", Term("identity", "id")),
    ("identity(id)", Term("identity", "id")),
    (" bucket( 16 , id ) ", Term("bucket", "id", 16)),
    ("truncate(10, a name)", Term("truncate", "a name", 10)),
    ("day(created_at)", Term("day", "created_at")),
]


@pytest.mark.parametrize(("text", "term"), WORDS)
def test_what_a_spec_may_say(text: str, term: Term) -> None:
    assert Term.parse(text) == term
    assert Term.parse(str(term)) == term


@pytest.mark.parametrize(
    "text", ["", "bucket(id)", "bucket(0, id)", "day(3, id)", "week(id)", "day(id", "a,b", "day(a, b)", "void(id)"]
)
def test_what_it_may_not(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is none of `column`|must be more than 0"):
        Layout(partition=(text,))


def _partitions(topic: Topic) -> set[str]:
    """Of the current files: the folder's names, as Iceberg makes them of partition values."""
    files = topic.spark.table(f"lake.shop.{topic.table}.files").select("file_path").collect()
    return {row.file_path.split("/data/")[1].rpartition("/")[0] for row in files}


def test_a_table_begins_with_its_specs_layout(spark: SparkSession) -> None:
    topic, layout = Topic(spark), Layout(partition=("bucket(4, id)",), sort=("name", "id"))
    mirror = topic.mirror(layout=layout)
    outcome = topic.apply(mirror, topic.batch([create(k, k, f"n{k}") for k in range(1, 20)]), 0)
    assert outcome.layout == ["partition by bucket(4, id)"]
    assert partitioning(topic.lake_table()) == ("bucket(4, id)",)
    assert _partitions(topic) == {f"id_bucket_4={n}" for n in range(4)}
    assert topic.apply(mirror, topic.batch([update(20, 1, "b"), delete(21, 2)]), 1).layout == []
    assert [line[:2] for line in topic.rows()][:2] == [(1, "b"), (3, "n3")]
    topic.assert_ledger_is_whole()


def test_another_layout_is_had_without_a_rewrite_and_rows_stay_right(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(k, k, f"n{k}") for k in range(1, 10)]), 0)
    changed = topic.mirror(layout=Layout(partition=("bucket(2, id)",)))
    topic.apply(changed, topic.batch([update(20, 1, "b"), delete(21, 2), create(22, 30, "new")]), 1)
    assert "" in _partitions(topic), "what was written before is where it was"
    again = topic.mirror(layout=Layout(partition=("truncate(1, name)",), sort=("id",)))
    outcome = topic.apply(again, topic.batch([update(23, 3, "c"), delete(24, 4), update(25, 1, "x")]), 2)
    assert outcome.layout == ["partition by truncate(1, name)"]
    none = topic.mirror(layout=Layout(partition=(), sort=()))
    topic.apply(none, topic.batch([update(26, 5, "d"), delete(27, 1)]), 3)
    assert partitioning(topic.lake_table()) == ()
    expected = [(3, "c"), (5, "d"), *((k, f"n{k}") for k in range(6, 10)), (30, "new")]
    assert [line[:2] for line in topic.rows()] == expected
    topic.assert_ledger_is_whole()


def test_a_layout_that_nobody_speaks_of_is_left_alone(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    spark.sql(f"ALTER TABLE lake.shop.{topic.table} ADD PARTITION FIELD bucket(2, id)")
    outcome = topic.apply(topic.mirror(), topic.batch([create(2, 2, "b")]), 1)
    assert (outcome.layout, outcome.layout_refused) == ([], None)
    assert partitioning(topic.lake_table()) == ("bucket(2, id)",)


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (Layout(partition=("day(name)",)), "day"),
        (Layout(partition=("gone",)), "gone"),
        (Layout(sort=("gone",)), "gone"),
        (Layout(partition=("bucket(4, id)",), sort=("gone",)), "gone"),
    ],
)
def test_a_layout_that_cant_be_had_is_told_and_nothing_waits_for_it(
    spark: SparkSession, layout: Layout, why: str
) -> None:
    topic = Topic(spark)
    outcome = topic.apply(topic.mirror(layout=layout), topic.batch([create(1, 1, "a")]), 0)
    assert outcome.layout_refused is not None
    assert why in outcome.layout_refused
    assert topic.table in outcome.layout_refused
    assert partitioning(topic.lake_table()) == ()
    assert topic.rows() == [(1, "a", "d")]


INT_ID = replace(ID, type="int4", declared="int4")


def test_a_column_that_rows_are_partitioned_by_may_be_renamed_and_widened(spark: SparkSession) -> None:
    source = Source(spark, INT_ID, NAME, DOC)
    source.mirror = source.topic.mirror(layout=Layout(partition=("bucket(2, id)", "truncate(1, name)"), sort=("doc",)))
    source.mirrored(source.write("c", 1, "a", "x"), source.write("c", 2, "b", "y"), source.write("c", 3, "c", "z"))
    source.alter(ID, replace(NAME, name="title"))
    source.mirrored(source.write("u", 1, "aa"), source.write("d", 2, None), source.write("c", 4, "new"))
    assert source.rows("id", "title") == [(1, "aa"), (3, "c"), (4, "new")]
    assert partitioning(source.topic.lake_table()) == ("bucket(2, id)", "truncate(1, title)")


def test_one_that_is_dropped_stays_without_values_also_when_it_no_more_parts_rows(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirror = source.topic.mirror(layout=Layout(partition=("truncate(1, name)",)))
    source.mirrored(source.write("c", 1, "a", "x"), source.write("c", 2, "b", "y"))
    source.mirror = source.topic.mirror(layout=Layout(partition=()))
    source.mirrored(source.write("u", 2, "b", "yy"))
    source.alter(ID, DOC)
    source.mirrored(source.write("u", 1, "xx"), source.write("c", 3, "z"))
    assert source.rows("id", "name", "doc") == [(1, None, "xx"), (2, "b", "yy"), (3, None, "z")]
    assert source.history()[-1] == "drop of name not followed (discard_value)"
    source.mirrored(source.write("d", 1, None), source.write("u", 2, "yyy"))
    assert source.rows("id", "name", "doc") == [(2, None, "yyy"), (3, None, "z")]


def test_one_that_gets_another_type_holds_the_table(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirror = source.topic.mirror(layout=Layout(partition=("truncate(1, name)",)))
    source.mirrored(source.write("c", 1, "a", "x"))
    source.alter(ID, replace(NAME, type="int8", declared="int8"), DOC, reread=True)
    with pytest.raises(StopPipeline, match="column name can't go, because the table is partitioned by it"):
        source.mirrored(source.write("u", 1, 5, "x"))


def test_a_table_that_takes_the_name_of_another_takes_its_partitioning(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirror = source.topic.mirror(layout=Layout(partition=("bucket(2, id)", "truncate(1, name)")))
    source.mirrored(source.write("c", 1, "a", "x"), source.write("c", 2, "b", "y"))
    source.alter(ID, replace(DOC, number=2, name="name"), relation=2)
    source.mirrored(source.write("c", 1, "new"), source.write("c", 7, "seven"), schema_changed=True)
    assert source.rows("id", "name") == [(1, "new"), (7, "seven")]
    assert partitioning(source.topic.lake_table()) == ("bucket(2, id)", "truncate(1, name)")
