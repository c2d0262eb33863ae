"""Tables whose spec keeps them from following some changes of their source's schema."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.specs.load import SchemaPolicy
from tests.unit.pipelines.mirror.table.test_schema_changes import DOC, ID, NAME, Source, column

COUNT = column(4, "count", "int4")


def _source(spark: SparkSession, **words: Any) -> Source:
    source = Source(spark, ID, NAME, COUNT)
    source.mirror = source.topic.mirror(SchemaPolicy(**words))
    source.mirrored(source.write("c", 1, "a", 1), source.write("c", 2, "b", 2))
    return source


def test_a_frozen_change_holds_the_table(spark: SparkSession) -> None:
    source = _source(spark, add="freeze")
    source.alter(ID, NAME, COUNT, DOC)
    with pytest.raises(StopPipeline, match="the spec freezes the add of doc"):
        source.mirrored(source.write("c", 3, "c", 3, "three"))
    assert source.rows("id", "name", "count") == [(1, "a", 1), (2, "b", 2)]


def test_values_that_need_a_change_are_left_out(spark: SparkSession) -> None:
    source = _source(
        spark, add="discard_value", drop="discard_value", rename="discard_value", widen="discard_value",
        change="discard_value",
    )  # fmt: skip
    source.alter(ID, column(2, "title", "text"), column(4, "count", "int8"), DOC)
    source.mirrored(source.write("u", 1, "A", 2**40, "one"), source.write("c", 3, "c", 7, "three"))
    assert source.rows("id", "name", "count") == [(1, "A", None), (2, "b", 2), (3, "c", 7)]
    assert source.history()[-3:] == [
        "rename of title not followed (discard_value)", "widen of count not followed (discard_value)",
        "add of doc not followed (discard_value)",
    ]  # fmt: skip
    source.alter(ID, column(4, "count", "int8"), DOC)
    source.mirrored(source.write("u", 2, 8, "two"))
    assert source.rows("id", "name", "count") == [(1, "A", None), (2, None, 8), (3, "c", 7)]
    source.alter(ID, column(4, "count", "text"), DOC)
    source.mirrored(source.write("u", 2, "eight", "two"))
    assert source.rows("id", "name", "count") == [(1, "A", None), (2, None, None), (3, "c", 7)]
    assert source.topic.assert_ledger_is_whole().dead_lettered == 0


def test_rows_that_need_a_change_become_dead_letters(spark: SparkSession) -> None:
    source = _source(spark, add="discard_row", drop="discard_row", widen="discard_row")
    source.alter(ID, NAME, column(4, "count", "int8"), DOC)
    source.mirrored(source.write("u", 1, "A", 2**40, None), source.write("u", 2, "B", 3, None))
    source.mirrored(source.write("c", 3, "c", 3, "three"))
    assert source.rows("id", "name", "count") == [(1, "a", 1), (2, "B", 3)]
    assert source.topic.letters.reasons == ["schema_withheld", "schema_withheld"]
    source.alter(ID, column(4, "count", "int8"), DOC)
    source.mirrored(source.write("u", 2, 4, None), source.write("d", 2, None, None))
    assert source.topic.letters.reasons.count("parked") == 1, "the delete waits behind the row that was refused"
    source.topic.assert_ledger_is_whole()


def test_a_table_follows_once_its_spec_lets_it(spark: SparkSession) -> None:
    source = _source(spark, add="discard_value")
    source.alter(ID, NAME, COUNT, DOC)
    source.mirrored(source.write("c", 3, "c", 3, "three"))
    source.mirror = source.topic.mirror()
    source.mirrored(source.write("c", 4, "d", 4, "four"))
    assert source.rows("id", "name", "count", "doc")[-2:] == [(3, "c", 3, None), (4, "d", 4, "four")]


def test_a_name_that_two_columns_would_have_holds_the_table(spark: SparkSession) -> None:
    source = _source(spark, drop="discard_value")
    source.alter(ID, column(5, "name", "text"), COUNT)
    with pytest.raises(StopPipeline, match="two columns would be called name"):
        source.mirrored(source.write("c", 3, "c", 3))


def test_a_frozen_key_holds_the_table(spark: SparkSession) -> None:
    source = _source(spark, key="freeze")
    source.alter(ID, NAME, COUNT, keys=(2,))
    with pytest.raises(StopPipeline, match="the spec freezes the key"):
        source.mirrored(source.write("c", 3, "c", 3))
