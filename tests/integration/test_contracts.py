"""Contracts beside real tables: a first one from the source, and what is said once the source goes on without it."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_a_migration_that_breaks_a_promise_is_told(stack: Stack, tmp_path: Path) -> None:
    stack.sql(
        "CREATE TYPE promised_state AS ENUM ('open', 'closed')",
        "CREATE TABLE promised (id bigint, line int, state promised_state NOT NULL, mail text UNIQUE,"
        ' paid numeric(9,2), CONSTRAINT "paid more" CHECK (paid > 0), PRIMARY KEY (line, id))',
        "COMMENT ON COLUMN promised.mail IS 'Where the bill goes'",
        "INSERT INTO promised VALUES (1, 1, 'open', 'a', 1)",
    )
    stack.assert_equal("promised")
    written = stack.lakehouse("contract", "init", "promised", "--in", str(tmp_path))
    assert written == {"file": str(tmp_path / "public.promised.yaml"), "table": "public.promised", "columns": 5}
    (found,) = stack.lakehouse("contract", "check", "--in", str(tmp_path))["contracts"]
    shown = ("name", "physical", "logical", "key", "required", "unique")
    assert [tuple(column[name] for name in shown) for column in found["columns"]] == [
        ("id", "bigint", "integer", 2, True, False), ("line", "integer", "integer", 1, True, False),
        ("state", "promised_state", "string", 0, True, False), ("mail", "text", "string", 0, False, True),
        ("paid", "numeric(9,2)", "number", 0, False, False),
    ]  # fmt: skip
    assert found["columns"][2]["allowed"] == ["open", "closed"]
    assert found["columns"][3]["description"] == "Where the bill goes"
    assert [rule["name"] for rule in found["rules"]] == ["paid more"]
    again = stack.lakehouse("contract", "init", "promised", "--in", str(tmp_path), ok=(2,))
    assert "--force overwrites it" in again["error"]
    assert not stack.lakehouse("contract", "diff", "--in", str(tmp_path))["breaking"]

    stack.sql(
        "ALTER TABLE promised ALTER paid TYPE double precision, ADD note text, DROP CONSTRAINT promised_mail_key",
        "ALTER TYPE promised_state ADD VALUE 'lost'",
        "INSERT INTO promised VALUES (2, 1, 'lost', 'a', 1, 'new')",
    )
    stack.assert_equal("promised")
    said = stack.lakehouse("contract", "diff", "promised", "--in", str(tmp_path), ok=(1,))
    (compared,) = said["contracts"]
    assert [(d["where"], d["column"], d["what"]) for d in compared["differences"] if d["breaking"]] == [
        ("source", "state", "it may be lost there, too"),
        ("source", "paid", "it is double precision, not numeric(9,2)"),
    ]
    assert {(d["where"], d["column"]) for d in compared["differences"] if not d["breaking"]} == {
        ("source", "mail"), ("source", "note"), ("lake", "note"),
    }  # fmt: skip


def test_the_shops_contracts_are_kept(stack: Stack) -> None:
    stack.sql("INSERT INTO customers VALUES (1, 'a@b', 'A', 'gold', '{}', NULL, false, '{}', NULL, now(), now())")
    stack.assert_equal("customers")
    assert not stack.lakehouse("contract", "diff")["breaking"]
    shown = stack.lakehouse("table", "show", "customers")["contract"]
    assert (shown["owner"], shown["status"], shown["broken"]) == ("customer-care", "active", [])
    assert shown["classes"]["email"] == "personal"


def test_a_contract_is_enforced_in_the_stream(stack: Stack) -> None:
    """By the contract of ``guarded`` in tests.integration.stack."""
    stack.sql(
        "CREATE TABLE guarded (id bigint PRIMARY KEY, mail text, amount numeric(9,2), state text)",
        "INSERT INTO guarded VALUES (1, 'a@b', 1, 'open'), (2, 'nobody', 2, 'open'), (3, 'c@d', -1, 'open'),"
        " (4, 'e@f', 0, 'closed'), (5, 'g@h', 5, 'lost')",
    )
    stack.lakehouse("wait")
    assert _rows(stack) == [(1, "a@b", "open"), (2, None, "open"), (4, "e@f", "closed"), (5, "g@h", "lost")]
    (letter,) = _letters(stack)
    assert (letter["reason"], letter["stage"]) == ("rule_broken", "admit")
    assert "amount.minimum" in letter["message"]
    shown = stack.lakehouse("table", "show", "guarded")
    assert shown["broken_rows"] == {"amount.minimum": 1, "mail.pattern": 1, "state.enum": 1}
    table = stack.catalog().load_table("shop.guarded")
    assert table.properties["lakehouse.contract.owner"] == "guards"
    assert table.properties["comment"] == "Rows that are looked at."
    assert table.schema().find_field("mail").doc == "[personal]"
    (found,) = stack.own("verify", "guarded", ok=(1,))["tables"]
    assert (found["missing"], found["differing"], found["extra"]) == (1, 0, 0), (
        "what is null by contract is no difference"
    )
    (explanation,) = found["explanation"]
    assert (explanation["cause"], explanation["text"]) == (
        "dead letters", "1 open dead letter of it: 1 rule_broken"
    )  # fmt: skip

    stack.sql("UPDATE guarded SET amount = 3 WHERE id = 3", "UPDATE guarded SET mail = 'i@j' WHERE id = 2")
    stack.lakehouse("wait")
    assert sorted(each["reason"] for each in _letters(stack)) == ["parked", "rule_broken"]
    position = f"{letter['topic']}:{letter['partition']}:{letter['offset']}"
    test = "tests/integration/test_contracts.py::test_a_contract_is_enforced_in_the_stream"
    follow(stack, RUNBOOKS / "dead-letters.md", test, LETTER=position, TOPIC=letter["topic"])
    assert _rows(stack) == [
        (1, "a@b", "open"), (2, "i@j", "open"), (3, "c@d", "open"), (4, "e@f", "closed"), (5, "g@h", "lost"),
    ]  # fmt: skip
    assert stack.own("verify", "guarded")["equal"]
    stack.assert_equal("guarded")


AUDITED = [
    "CREATE TABLE IF NOT EXISTS audited (id bigint PRIMARY KEY, mail text, state text)",
    "INSERT INTO audited VALUES (1, 'first@private', 'open'), (2, 'second@private', 'lost'),"
    " (3, 'second@private', 'open') ON CONFLICT DO NOTHING",
]


def test_a_contract_is_checked(stack: Stack, tmp_path: Path) -> None:
    """By the contract of ``audited`` in tests.integration.stack."""
    stack.sql(*AUDITED)
    stack.lakehouse("wait")
    (run,) = stack.own("check", "audited", ok=(1,))["tables"]
    assert (run["table"], run["contract"], run["error"]) == ("shop.audited", "1.0.0", None)
    broken = {result["name"]: result["unexpected"] for result in run["results"] if not result["success"]}
    assert broken == {"state.enum": 1, "mail.unique": 2, "as many as there are guards": None}
    told = stack.own("docs", "--out", str(tmp_path / "site"))
    assert told["runs"] >= 1
    pages = [page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")]
    assert any("shop.audited" in page for page in pages)
    assert not [page for page in pages if "@private" in page], "values of rows are nobody's business"
    assert "has no contract" in stack.own("check", "nothing", ok=(2,))["error"]


@pytest.mark.slow
def test_what_was_checked_before_is_not_asked_again(stack: Stack) -> None:
    stack.sql(*AUDITED)
    stack.lakehouse("wait")
    assert stack.own("check", "audited", ok=(1,))["tables"]
    stack.sql("UPDATE audited SET state = 'open' WHERE id = 2",
              "UPDATE audited SET mail = 'third@private' WHERE id = 3",
              "INSERT INTO audited VALUES (4, 'fourth@private', 'open')")  # fmt: skip
    stack.lakehouse("wait")
    (again,) = stack.own("check", "audited")["tables"]
    found = {result["name"]: result for result in again["results"]}
    assert (found["mail.pattern"]["elements"], found["state.enum"]["elements"]) == (3, 4), (
        "what was kept isn't asked again"
    )
    assert [each["run"] for each in stack.own("check", "--last", "audited")["tables"]] == [again["run"]]


@pytest.mark.slow
def test_what_breaks_a_blocking_contract_is_not_seen_until_it_is_mended(stack: Stack) -> None:
    """By the contract of ``published`` in tests.integration.stack."""
    stack.sql("CREATE TABLE published (id bigint PRIMARY KEY, name text)",
              "CREATE TABLE bystander (id bigint PRIMARY KEY)",
              "INSERT INTO published VALUES (1, 'a'), (2, 'b')", "INSERT INTO bystander VALUES (1)")  # fmt: skip
    stack.assert_equal("published", "bystander")
    stack.sql("UPDATE published SET name = 'a' WHERE id = 2", "INSERT INTO published VALUES (3, 'c')")
    wait_until(lambda: "shop.public.published" in stack.lakehouse("table", "list")["held"])
    reason = stack.lakehouse("table", "list")["held"]["shop.public.published"]
    assert "isn't published" in reason
    assert "name.unique (2 rows)" in reason
    assert _names(stack) == [(1, "a"), (2, "b")], "readers have the last good state"
    stack.sql("INSERT INTO bystander VALUES (2)")
    wait_until(lambda: stack.catalog().load_table("shop.bystander").scan().count() == 2)
    stack.make("kill", "s=mirror")
    wait_until(lambda: "shop.public.published" in stack.lakehouse("table", "list")["held"])
    assert _names(stack) == [(1, "a"), (2, "b")]
    stack.sql("UPDATE published SET name = 'z' WHERE id = 2")
    stack.assert_equal("published", "bystander")
    assert _names(stack) == [(1, "a"), (2, "z"), (3, "c")]
    assert [ref for ref in stack.catalog().load_table("shop.published").refs() if ref != "main"] == []


def _names(stack: Stack) -> list[tuple[int, str]]:
    rows = stack.catalog().load_table("shop.published").scan().to_arrow().to_pylist()
    return sorted((row["id"], row["name"]) for row in rows)


def _rows(stack: Stack) -> list[tuple[int, str | None, str]]:
    rows = stack.catalog().load_table("shop.guarded").scan().to_arrow().to_pylist()
    return sorted((row["id"], row["mail"], row["state"]) for row in rows)


def _letters(stack: Stack) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stack.lakehouse("dlq", "list", "--topic", "shop.public.guarded")["letters"]
    return found
