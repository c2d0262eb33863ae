"""Checks of a table as contracts state them: what is asked, and what is said of one that can't be."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from quality import odcs
from quality.checks import QUERY, Check
from quality.errors import ContractError
from quality.suites import suite
from tests.unit.quality.test_contract import HEAD

COLUMN = "      - {name: a, logicalType: integer}\n"


def contract_of(tmp_path: Path, table: str = "", column: str = "") -> Any:
    """A contract of the column ``a``, with these checks of the table and of it, as YAML's flow style has them."""
    (tmp_path / "t.yaml").write_text(
        f"{HEAD}schema:\n  - name: public.t\n    properties:\n      - name: a\n        logicalType: integer\n"
        + (f"        quality: [{column}]\n" if column else "")
        + (f"    quality: [{table}]\n" if table else ""),
        encoding="utf-8",
    )
    (contract,) = odcs.load(tmp_path).values()
    return contract


# How it is said, of the table or the column; rows that keep it, rows that don't.
QUERIES: list[tuple[str, str, str, list[Any], list[Any]]] = [
    ("rows", "{metric: rowCount, mustBeGreaterOrEqualTo: 2}", "", [1, 2], [1]),
    ("an exact number", "{metric: rowCount, mustBe: 1}", "", [1], [1, 2]),
    ("not so many", "{metric: rowCount, mustNotBe: 2}", "", [1], [1, 2]),
    ("between", "{metric: rowCount, mustBeBetween: [1, 2]}", "", [1, 2], [1, 2, 3]),
    ("not between", "{metric: rowCount, mustNotBeBetween: [2, 3]}", "", [1], [1, 2, 3]),
    ("nulls", "", "{metric: nullValues, mustBeLessThan: 2}", [1, None], [None, None]),
    ("values that stand for none", "", "{metric: missingValues, arguments: {missingValues: ['-1', '']}, mustBe: 0}",
     [1], [-1]),
    ("other values", "", "{metric: invalidValues, arguments: {validValues: [1, 2]}, mustBe: 0}", [1, 2, None], [3]),
    ("duplicates", "", "{metric: duplicateValues, mustBeLessOrEqualTo: 1}", [1, 1, 2], [1, 1, 1]),
    ("by SQL", "{name: sum, type: sql, query: 'SELECT sum(a) FROM ${table};', mustBeGreaterThan: 2}", "", [1, 2], [1]),
    ("by SQL of a column", "", "{name: top, type: sql, query: 'SELECT max(${column}) FROM ${object}', mustBe: 2}",
     [1, 2], [3]),
    ("braces", "{name: b, type: sql, query: \"SELECT count(*) FROM ${table} WHERE '{x}' = '{x}'\", mustBe: 1}", "",
     [1], [1, 1]),
    ("text", "{name: t, type: sql, query: \"SELECT min(cast(a AS text)) FROM ${table}\", mustBe: '1'}", "", [1], [2]),
    ("of nothing", "{name: n, type: sql, query: 'SELECT min(a) FROM ${table}', mustBe: 1}", "", [1], []),
]  # fmt: skip


@pytest.mark.parametrize(("label", "table", "column", "good", "bad"), QUERIES, ids=[case[0] for case in QUERIES])
def test_what_a_check_asks(
    tmp_path: Path, label: str, table: str, column: str, good: list[Any], bad: list[Any]
) -> None:
    (check,) = contract_of(tmp_path, table, column).checks
    assert check.kind == QUERY
    assert check.column == ("a" if column else None)
    assert not check.others
    query = check.arguments["unexpected_rows_query"].format(batch="t").replace("`", '"')
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        for rows, broken in ((good, 0), (bad, 1)):
            connection.execute("DELETE FROM t")
            for row in rows:
                connection.execute("INSERT INTO t VALUES (?)", [row])
            assert len(connection.execute(query).fetchall()) == broken, rows


@pytest.mark.parametrize(("query", "others"), [
    ("SELECT count(*) - count(DISTINCT lower(a)) FROM ${table}", False),
    ("select max(a) from\n  ${object} WHERE a > 1", False),
    ("SELECT count(*) FROM ${table} AS t LEFT ANTI JOIN lake.shop.o ON t.a = o.a", True),
    ("SELECT count(*) FROM ${table} AS t, lake.shop.o", True),
    ("SELECT count(*) FROM lake.shop.o", True),
    ("SELECT count(*) FROM ${table} WHERE a IN (SELECT a FROM lake.shop.o)", True),
    ("SELECT (SELECT max(a) FROM lake.shop.o) - max(a) FROM ${table}", True),
    ("SELECT max(a) FROM ${table} UNION TABLE lake.shop.o", True),
])  # fmt: skip
def test_which_queries_may_look_at_other_tables(tmp_path: Path, query: str, others: bool) -> None:
    (check,) = contract_of(tmp_path, json.dumps({"name": "q", "type": "sql", "query": query, "mustBe": 0})).checks
    assert check.others == others


def test_expectations_of_other_peoples_making(tmp_path: Path) -> None:
    said = ("{name: spread, type: custom, engine: great-expectations, description: as ever, implementation:"
            " {type: expect_column_mean_to_be_between, kwargs: {min_value: 1, max_value: 3}}}")  # fmt: skip
    (check,) = contract_of(tmp_path, column=said).checks
    expected = {"column": "a", "min_value": 1, "max_value": 3}
    assert check == Check("a.spread", "expect_column_mean_to_be_between", expected, "a", "as ever")


def test_checks_of_other_engines_are_passed_over(tmp_path: Path) -> None:
    contract = contract_of(tmp_path, "{type: custom, engine: soda, implementation: x}, {type: text, description: y}")
    assert contract.checks == ()


@pytest.mark.parametrize(("table", "said"), [
    ("{metric: nullValues, mustBe: 0}", "nullValues is of a column"),
    ("{metric: rowCount}", "schema[0].quality[0] (rowCount): what must it be? Say mustBe,"),
    ("{metric: rowCount, mustBe: 1, mustNotBe: 2}", "it says mustBe and mustNotBe"),
    ("{name: q, type: sql, query: 'SELECT 1 FROM ${tabel}', mustBe: 1}", "isn't one of ${table}, ${object}"),
    ("{type: sql, query: 'SELECT 1', mustBe: 1}", "has a name and a query"),
    ("{type: custom, engine: great-expectations, implementation: {kwargs: {}}}", "the type of an expectation"),
    ("{metric: rowCount, mustBe: 1}, {metric: rowCount, mustBe: 2}", "rowcount more than once"),
])  # fmt: skip
def test_what_cannot_be_asked_is_told(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ContractError) as raised:
        contract_of(tmp_path, table)
    assert said in str(raised.value)


def test_another_argument_is_another_question(tmp_path: Path) -> None:
    def asked(bound: int) -> str:
        (*_, expectation) = suite(contract_of(tmp_path, f"{{metric: rowCount, mustBe: {bound}}}"), ["a"])
        return expectation.digest

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)
