"""What is promised of a value, as two engines understand it."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from pipelines.changes.enforce import SPARK
from quality.conditions import conditions, kept
from quality.contract import Column
from services.verify.columns import DUCKDB

CASES: list[tuple[str, Column, Any, Any]] = [
    ("minimum", Column("v", options={"minimum": 0}), [0, 1, None], [-1]),
    ("exclusiveMinimum", Column("v", options={"exclusiveMinimum": 0.5}), [0.6], [0.5, -1.0]),
    ("maximum of a decimal", Column("v", options={"maximum": 1.1}), [Decimal("1.10")], [Decimal("1.11")]),
    ("exclusiveMaximum", Column("v", options={"exclusiveMaximum": 10}), [9], [10]),
    ("a date", Column("v", options={"minimum": date(2020, 2, 29)}), [date(2020, 2, 29)], [date(2020, 2, 28)]),
    ("a time", Column("v", options={"maximum": datetime(2020, 1, 1, 12)}), [datetime(2020, 1, 1, 12)],
     [datetime(2020, 1, 1, 12, 0, 1)]),
    ("a date as text", Column("v", options={"minimum": "2020-02-29"}), [date(2020, 2, 29)], [date(2020, 2, 28)]),
    ("minLength", Column("v", options={"minLength": 2}), ["éé", "abc"], ["a", ""]),
    ("maxLength", Column("v", options={"maxLength": 2}), ["éé", ""], ["abc"]),
    ("pattern", Column("v", options={"pattern": r"^\d+'\\$"}), ["12'\\"], ["x", "12", "12'"]),
    ("a part is enough for a pattern", Column("v", options={"pattern": "b"}), ["abc"], ["ac"]),
    ("enum", Column("v", allowed=("it's", "b\\")), ["it's", "b\\"], ["b", "its"]),
    ("enum of numbers", Column("v", allowed=(1, 2)), [1], [3]),
    ("enum of truth", Column("v", allowed=(True,)), [True], [False]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "good", "bad"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_in_duckdb(column: Column, good: list[Any], bad: list[Any]) -> None:
    expression = kept("v", conditions(column, "v", DUCKDB).values())
    for value in [*good, *bad]:
        found = duckdb.execute(f"SELECT {expression} FROM (SELECT ? AS v)", [value]).fetchone()
        assert found == ((value if value in good else None),)


def test_a_number_that_the_lake_holds_as_text_is_one(spark: Any) -> None:
    (condition,) = conditions(Column("v", options={"exclusiveMinimum": 0}), "v", SPARK).values()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        rows = spark.sql(f"SELECT {condition} AS kept FROM VALUES ('0.5'), ('-0.5'), ('NaN'), ('12') AS t(v)").collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert [row.kept for row in rows] == [True, False, True, True]


@pytest.mark.parametrize(("column", "good", "bad"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_in_spark(spark: Any, column: Column, good: list[Any], bad: list[Any]) -> None:
    expression = kept("v", conditions(column, "v", SPARK).values())
    for value in [*good, *bad]:
        (row,) = spark.sql(f"SELECT {expression} AS found FROM (SELECT :v AS v)", {"v": value}).collect()
        assert row.found == (value if value in good else None)


def test_without_a_promise_a_value_is_itself() -> None:
    assert kept("v", []) == "v"
