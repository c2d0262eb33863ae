"""A table's contract, asked of its snapshots: what is found, what is asked again, and what is kept of it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.checks.record import PreviousRun, Record, Run
from pipelines.checks.run import Checker
from pipelines.lake.names import CHECK_RUNS, CHECKS
from quality.checks import QUERY, Check
from quality.contract import Column, Contract, Rule
from tests.unit.pipelines.harness import Topic, create, update

PROMISED = Contract(
    ("public", "t"), "1.0.0", "active",
    (Column("id", key=1, required=True), Column("name", required=True, allowed=("a", "b"), unique=True),
     Column("doc", options={"maxLength": 3, "pattern": "^d"})),
    rules=(Rule("positive", "id > 0 -- and {so on}"),),
    checks=(Check("some", QUERY, {"unexpected_rows_query": "SELECT found FROM (SELECT count(*) AS found FROM {batch})"
                                                           " WHERE NOT coalesce(found > 1, false)"}),
            Check("named", "expect_column_values_to_not_be_in_set", {"column": "name", "value_set": ["z"]})),
)  # fmt: skip


class Settled:
    """What happens while a check waits for other tables."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    def __call__(self) -> None:
        self.steps.pop(0)()


def mirrored(spark: SparkSession, *events: Any) -> Topic:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch(list(events)), 0)
    return topic


def checked(topic: Topic, contract: Contract = PROMISED, last: PreviousRun | None = None, settle: Any = None) -> Run:
    return Checker(topic.spark, settle or Settled()).run(("shop", topic.table), contract, last)


def broken(run: Run) -> dict[str, int | None]:
    return {result.expectation.name: result.unexpected for result, _ in run.results if result.success is False}


def test_every_promise_is_asked(spark: SparkSession) -> None:
    run = checked(mirrored(spark, create(1, 1, "a"), create(2, 2, "b")))
    assert run.error is None
    assert [(r.expectation.name, r.success, r.error) for r, _ in run.results] == [
        (name, True, None)
        for name in ("columns", "key", "id.required", "name.required", "name.unique", "name.enum", "doc.maxLength",
                     "doc.pattern", "positive", "some", "named")
    ]  # fmt: skip
    assert run.success
    assert run.contract == "1.0.0"


def test_what_is_broken_is_counted(spark: SparkSession) -> None:
    run = checked(
        mirrored(spark, create(1, -1, "a"), create(2, 2, "a", "deep"), create(3, 3, "z"), create(4, 4, "c", "x"))
    )
    assert broken(run) == {
        "name.unique": 2, "name.enum": 2, "doc.maxLength": 1, "doc.pattern": 1, "positive": None, "named": 1,
    }  # fmt: skip
    assert not run.success


def test_nothing_of_a_row_is_kept(spark: SparkSession) -> None:
    run = checked(mirrored(spark, create(1, -77123, "secret", "hidden"), create(2, 2, "secret")))
    assert len(broken(run)) > 3
    assert not [word for word in ("secret", "hidden", "77123") if word in f"{run}"]


OBSERVING = (
    Check("newest", "expect_column_max_to_be_between", {"column": "doc", "max_value": "a"}, "doc"),
    Check("usual", "expect_column_most_common_value_to_be_in_set", {"column": "doc", "value_set": ["x"]}, "doc"),
    Check("digits", "expect_column_sum_to_be_between", {"column": "doc", "max_value": 1}, "doc"),
    Check("ids", "expect_column_max_to_be_between", {"column": "id", "max_value": 1}, "id"),
)


def test_what_is_observed_of_a_classified_column_is_not_kept(spark: SparkSession) -> None:
    for classification in ("personal", None):
        columns = (Column("id", key=1), Column("name"), Column("doc", classification=classification))
        observing = Contract(("public", "t"), "1", "active", columns, checks=OBSERVING)
        run = checked(mirrored(spark, create(1, 77123, "a", "hidden"), create(2, 2, "b", "hidden")), observing)
        assert ("hidden" in f"{run}") is (classification is None)
        assert "77123" in f"{run}", "what a column that isn't has"
        assert {r.expectation.name for r, _ in run.results if r.success is False} >= {"usual", "ids"}
        (digits,) = [r for r, _ in run.results if r.expectation.name == "digits"]
        assert digits.error is not None


def test_what_needs_a_protected_value_is_told_and_the_rest_asked(spark: SparkSession) -> None:
    columns = (
        Column("id", key=1, required=True),
        Column("name", required=True, unique=True, allowed=("a", "b"), protection="hash"),
        Column("doc", required=True, unique=True, options={"pattern": "^d"}, protection="encrypt"),
    )
    rules = (Rule("named", "name <> 'x' OR id > 0"), Rule("positive", "id > 0"))
    duplicates = "SELECT 1 AS found FROM {batch} GROUP BY `name` HAVING count(*) > 1"
    checks = (Check("name.duplicateValues", QUERY, {"unexpected_rows_query": duplicates}, "name",
                    metric="duplicateValues"), OBSERVING[0])  # fmt: skip
    promised = Contract(("public", "t"), "1", "active", columns, rules, checks)
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=promised), topic.batch([create(1, 1, "a"), create(2, 2, "b", "dd")]), 0)
    run = checked(topic, promised)
    told = {r.expectation.name: r.error for r, _ in run.results if r.error}
    assert told == {
        "name.enum": "name is protected (hash); the stream asks it of the value itself",
        "named": "name is protected (hash); the stream asks it of the value itself",
        **dict.fromkeys(("doc.unique", "doc.pattern", "newest"),
                        "doc is protected (encrypt); the stream asks it of the value itself"),
    }  # fmt: skip
    assert [r.expectation.name for r, _ in run.results if r.success] == [
        "columns", "key", "id.required", "name.required", "name.unique", "doc.required", "positive",
        "name.duplicateValues",
    ]  # fmt: skip
    assert run.success


def test_rows_that_were_asked_and_good_are_not_asked_again(spark: SparkSession) -> None:
    topic = mirrored(spark, create(1, 1, "a"), create(2, 2, "b"))
    first = checked(topic)
    topic.apply(topic.mirror(), topic.batch([create(3, 3, "c"), update(4, 2, "b", "deep")]), 1)
    run = checked(topic, last=first.last)
    asked = {result.expectation.name: (result.elements, since) for result, since in run.results}
    assert asked["name.enum"] == (2, first.positions)
    assert asked["name.unique"] == (3, None)
    assert broken(run) == {"name.enum": 1, "doc.maxLength": 1}
    third = checked(topic, last=run.last)
    asked = {result.expectation.name: (result.elements, since) for result, since in third.results}
    assert asked["doc.pattern"] == (0, run.positions)
    assert asked["name.enum"] == (3, None), "what was broken is asked of all rows until it is kept"


@pytest.mark.parametrize("what", ["another table", "another promise"])
def test_everything_is_asked_again_of(spark: SparkSession, what: str) -> None:
    topic = mirrored(spark, create(1, 1, "a"), create(2, 2, "b"))
    last = checked(topic).last
    known = (
        PreviousRun("elsewhere", last.snapshot_id, last.positions, last.met_digests, True)
        if what == "another table"
        else last
    )
    newer = Column("name", required=True, allowed=("a", "b", "c"))
    contract = Contract(("public", "t"), "2.0.0", "active", (Column("id", key=1, required=True), newer))
    run = checked(topic, contract, known)
    assert {result.expectation.name: since for result, since in run.results}["name.enum"] is None


def test_a_column_that_is_promised_and_gone(spark: SparkSession) -> None:
    contract = Contract(("public", "t"), "1", "active", (Column("id", key=1), Column("gone", required=True)))
    assert broken(checked(mirrored(spark, create(1, 1, "a")), contract)) == {"columns": None}


def test_what_cannot_be_asked_is_told(spark: SparkSession) -> None:
    checks = (Check("odd", "expect_nothing_of_the_kind"),
              Check("wrong", QUERY, {"unexpected_rows_query": "SELECT nope FROM {batch}"}))  # fmt: skip
    run = checked(
        mirrored(spark, create(1, 1, "a")), Contract(("public", "t"), "1", "active", (Column("id"),), (), checks)
    )
    found = {result.expectation.name: (result.success, result.error) for result, _ in run.results}
    assert found["columns"] == (True, None)
    assert found["odd"][0] is None
    assert "expect_nothing_of_the_kind" in f"{found['odd'][1]}"
    assert found["wrong"][0] is None
    assert "nope" in f"{found['wrong'][1]}"
    assert not run.success


def test_a_file_that_is_lost_is_named_by_what_could_not_be_asked(spark: SparkSession) -> None:
    topic = mirrored(spark, create(1, 1, "a"), create(2, 2, "b"))
    for (path,) in spark.sql(f"SELECT file_path FROM lake.shop.{topic.table}.data_files").collect():
        Path(path.removeprefix("file:")).unlink()
    run = checked(topic)
    found = {result.expectation.name: (result.success, result.error) for result, _ in run.results}
    assert found["columns"] == (True, None)
    asked_in_vain = {name: error for name, (success, error) in found.items() if success is None}
    assert {"key", "name.enum", "some"} <= asked_in_vain.keys()
    assert {error for error in asked_in_vain.values() if "parquet" not in f"{error}"} == set()
    record = Record(spark)
    record.add([run])
    (row,) = spark.table(f"lake.lakehouse.{CHECK_RUNS}").where(f"run = '{run.id}'").collect()
    assert (row.success, row.asked, row.failed, row.not_asked) == (
        False, 11 - len(asked_in_vain), 0, len(asked_in_vain)
    )  # fmt: skip


def test_a_look_at_another_table_counts_once_it_had_time(spark: SparkSession) -> None:
    parents, children = mirrored(spark, create(1, 1, "a")), mirrored(spark, create(1, 5, "a"))
    query = (f"SELECT found FROM (SELECT count(*) AS found FROM {{batch}} AS c LEFT ANTI JOIN lake.shop.{parents.table}"
             " AS p ON c.id = p.id) WHERE found > 0")  # fmt: skip
    contract = Contract(("public", "t"), "1", "active", (Column("id", key=1),), (),
                        (Check("has a parent", QUERY, {"unexpected_rows_query": query}, others=True),))  # fmt: skip
    assert broken(checked(children, contract, settle=Settled(lambda: None))) == {"has a parent": None}
    come = Settled(lambda: parents.apply(parents.mirror(), parents.batch([create(2, 5, "a")]), 1))
    run = checked(children, contract, settle=come)
    assert run.success
    assert run.document is not None
    assert run.document["success"] is True


def test_tables_that_cannot_be_checked(spark: SparkSession) -> None:
    checker = Checker(spark, Settled())
    assert checker.run(("shop", "nowhere"), PROMISED, None).error == "the lake hasn't got the table yet"
    assert checker.run(("shop", "nowhere"), None, None).error == "the table has no contract"


def test_runs_are_kept(spark: SparkSession) -> None:
    topic = mirrored(spark, create(1, 1, "a"), create(2, 2, "c"))
    name = f"shop.{topic.table}"
    record = Record(spark)
    assert record.last(name) is None
    run = checked(topic)
    record.add([run])
    nothing = Run("other", name, "", 0, {}, "", datetime.now(UTC), 0.0, error="the lake hasn't got the table yet")
    record.add([nothing])
    last = record.last(name)
    assert last is not None
    assert (last.snapshot_id, last.positions, last.success) == (run.snapshot_id, run.positions, False)
    assert last.met_digests == run.last.met_digests
    (row,) = spark.table(f"lake.lakehouse.{CHECK_RUNS}").where(f"run = '{run.id}'").collect()
    assert (row.asked, row.failed, row.not_asked) == (11, 1, 0)
    found = spark.table(f"lake.lakehouse.{CHECKS}").where(f"run = '{run.id}' AND NOT success").collect()
    assert [(r.name, r.column, r.elements, r.unexpected) for r in found] == [("name.enum", "name", 2, 1)]
