"""What a contract makes of rows that break it: cases as labelled data, through the whole of a table's batch."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.changes import enforce
from pipelines.changes.topic_batch import TopicOutcome
from pipelines.ledger.entries import BROKEN
from quality.contract import Column, Contract, Rule
from quality.errors import ContractError
from tests.unit.pipelines.change_events import event
from tests.unit.pipelines.harness import GONE, Topic, change, create, delete, insert, read, remove, row, update

pytestmark = pytest.mark.slow


def contract(*columns: Column, rules: tuple[Rule, ...] = ()) -> Contract:
    return Contract(("public", "t"), "1", "active", (Column("id", key=1, required=True), *columns), rules)


def name(action: Any = "reject", **promised: Any) -> Column:
    return Column("name", on_violation=action, **promised)


NOT_BLANK = {"minLength": 1}
PATTERN = {"pattern": "^[a-z]+$"}
POSITIVE = Rule("positive", "id > 0", "reject")


@dataclass(frozen=True)
class Case:
    label: str
    contract: Contract
    batches: list[list[tuple[Any, ...]]]
    rows: list[tuple[Any, ...]]
    dead: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)


CASES = [
    Case("what keeps its promises comes", contract(name(allowed=("a", "b"), options=PATTERN)),
         [[create(1, 1, "a"), create(2, 2, "b")]], [(1, "a", "d"), (2, "b", "d")]),
    Case("rejected", contract(name(allowed=("a", "b"))), [[create(1, 1, "a"), create(2, 2, "c")]],
         [(1, "a", "d")], ["rule_broken"], {"name.enum": 1}),
    Case("rejected as nothing of the table comes", contract(name(options=NOT_BLANK)),
         [[create(2, 2, "")], [create(3, 4, "b")]], [(4, "b", "d")], ["rule_broken"], {"name.minLength": 1}),
    Case("read by a snapshot", contract(name(options=PATTERN)), [[read(1, 1, "a"), read(2, 2, "7")]],
         [(1, "a", "d")], ["rule_broken"], {"name.pattern": 1}),
    Case("what comes after it of its key waits", contract(name(options=PATTERN)),
         [[create(1, 1, "a"), create(2, 2, "b")], [update(3, 1, "7"), update(4, 1, "c"), update(5, 2, "z")],
          [update(6, 1, "d")]],
         [(1, "a", "d"), (2, "z", "d")], ["parked", "parked", "rule_broken"], {"name.pattern": 1}),
    Case("a delete isn't asked", contract(name(required=True)), [[create(1, 1, "a")], [delete(2, 1)]], []),
    Case("null breaks nothing but what is required", contract(name(options=PATTERN, allowed=("a",))),
         [[(1, event("c", 1, row(1, None, "d")), None)]], [(1, None, "d")]),
    Case("required", contract(name(required=True)),
         [[(1, event("c", 1, row(1, None, "d")), None), create(2, 2, "a")]], [(2, "a", "d")], ["rule_broken"],
         {"name.required": 1}),
    Case("comes without the value", contract(name("null", options=PATTERN)),
         [[create(1, 1, "7"), create(2, 2, "b")], [update(3, 2, "8"), update(4, 1, "x")]],
         [(1, "x", "d"), (2, None, "d")], [], {"name.pattern": 2}),
    Case("counted only", contract(name("warn", options=PATTERN | NOT_BLANK)),
         [[create(1, 1, "7"), create(2, 2, "")]], [(1, "7", "d"), (2, "", "d")], [],
         {"name.pattern": 2, "name.minLength": 1}),
    Case("a rule over columns", contract(rules=(Rule("named", "name <> doc", "reject"),)),
         [[create(1, 1, "a", "b"), create(2, 2, "a", "a")]], [(1, "a", "b")], ["rule_broken"], {"named": 1}),
    Case("a rule that can't be computed of a row holds",
         contract(rules=(Rule("even", "10 / (id - 1) > 0 AND CAST(name AS int) > 0", "reject"),)),
         [[create(1, 1, "x"), create(2, 2, "5"), create(3, 3, "-5")]], [(1, "x", "d"), (2, "5", "d")], ["rule_broken"],
         {"even": 1}),
    Case("a value that was left out isn't asked",
         contract(Column("doc", options={"maxLength": 3}, required=True, on_violation="reject"),
                  rules=(Rule("short", "length(doc) < 4", "reject"),)),
         [[create(1, 1, "a", "big")], [update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("nor nulled", contract(Column("doc", options={"maxLength": 3}, on_violation="null")),
         [[create(1, 1, "a", "big")], [update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("a column that the table hasn't got", contract(Column("gone", required=True, on_violation="reject")),
         [[create(1, 1, "a")]], [(1, "a", "d")]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_cases(spark: SparkSession, case: Case) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=case.contract)
    outcomes = [topic.apply(mirror, topic.batch(events), number) for number, events in enumerate(case.batches)]
    assert topic.rows() == case.rows
    assert topic.letters.reasons == case.dead
    assert _added(outcomes) == case.broken
    topic.assert_ledger_is_whole()


def _added(outcomes: list[TopicOutcome]) -> dict[str, int]:
    found: dict[str, int] = {}
    for outcome in outcomes:
        assert outcome.not_enforced == {}
        for promise, count in outcome.broken.items():
            found[promise] = found.get(promise, 0) + count
    return found


def test_a_commit_tells_what_was_broken(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=contract(name("warn", options=PATTERN)))
    topic.apply(mirror, topic.batch([create(1, 1, "7"), create(2, 2, "8"), create(3, 3, "a")]), 0)
    topic.apply(mirror, topic.batch([create(4, 4, "a")]), 1)
    assert [json.loads(s[BROKEN]) if BROKEN in s else None for s in topic.summaries()] == [
        {"name.pattern": 2}, None,
    ]  # fmt: skip


def test_without_a_key_what_a_row_was_is_found_without_the_value(spark: SparkSession) -> None:
    topic = Topic(spark, keyed=False)
    mirror = topic.mirror(contract=contract(name("null", options=PATTERN)))
    topic.apply(mirror, topic.batch([insert(1, (1, "7", "d")), insert(2, (2, "8", "d")), insert(3, (3, "a", "d"))]), 0)
    topic.apply(mirror, topic.batch([change(4, (1, "7", "d"), (1, "b", "d")), remove(5, (2, "8", "d"))]), 1)
    assert topic.rows() == [(1, "b", "d"), (3, "a", "d")]
    assert topic.letters.reasons == []


def test_a_replayed_letter_is_asked_what_the_contract_says_now(spark: SparkSession) -> None:
    topic = Topic(spark)
    strict, lax = contract(name(allowed=("a",))), contract(name(allowed=("a", "c")))
    topic.apply(topic.mirror(contract=strict), topic.batch([create(1, 1, "a"), create(2, 2, "c")]), 0)
    assert topic.letters.reasons == ["rule_broken"]
    again = (*create(2, 2, "c"), None, True)
    topic.letters.closed |= topic.letters.kept.keys()
    topic.apply(topic.mirror(contract=lax), topic.batch([again]), 1)
    assert topic.rows() == [(1, "a", "d"), (2, "c", "d")]


def test_what_cannot_be_asked_is_told_and_the_rest_enforced(spark: SparkSession) -> None:
    topic = Topic(spark)
    rules = (Rule("missing", "other > 1", "reject"), Rule("many", "explode(array(true, true))", "reject"),
             Rule("all_of_them", "count(*) > 5", "reject"), POSITIVE)  # fmt: skip
    mirror = topic.mirror(contract=contract(rules=rules))
    outcome = topic.apply(mirror, topic.batch([create(1, -1, "a"), create(2, 2, "b")]), 0)
    assert outcome.not_enforced.keys() == {"missing", "many", "all_of_them"}
    assert "other" in outcome.not_enforced["missing"]
    assert topic.rows() == [(2, "b", "d")]
    assert topic.apply(mirror, topic.batch([create(3, 3, "c")]), 1).not_enforced == {}


def test_lenience_is_not_for_the_rest(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=contract(rules=(POSITIVE,))), topic.batch([create(1, 1, "a")]), 0)
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.parametrize(("promised", "said"), [
    (contract(rules=(Rule("typo", "id > > 1"),)), "rule typo"),
    (contract(name(options={"pattern": "(?P<a>b)"})), "column name: pattern"),
])  # fmt: skip
def test_what_spark_does_not_understand_is_told_before_anything_is_read(
    spark: SparkSession, promised: Contract, said: str
) -> None:
    with pytest.raises(ContractError, match=said):
        enforce.check(spark, [promised])


def test_what_spark_understands_passes(spark: SparkSession) -> None:
    enforce.check(spark, [contract(name(options=PATTERN), rules=(POSITIVE,))])
