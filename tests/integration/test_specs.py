"""What a table's spec asks for, seen from outside: how fresh it is, and how it lies."""

import pytest

from tests.integration.stack import Stack, wait_until


def _count(stack: Stack, table: str) -> int:
    return int(stack.catalog().load_table(f"shop.{table}").scan().count())


def _lag(stack: Stack, table: str) -> int:
    """By how many offsets the lake is behind, as the mirror said last."""
    (state,) = [found for found in stack.lakehouse("table", "list")["tables"] if found["table"] == f"lake.shop.{table}"]
    return int(state["lag"])


def test_a_patient_table_is_left_out_of_commits_until_somebody_waits_for_it(stack: Stack) -> None:
    stack.sql("CREATE TABLE patient (id bigint PRIMARY KEY, note text)", "INSERT INTO patient VALUES (1, 'a')",
              "CREATE TABLE eager (id bigint PRIMARY KEY)", "INSERT INTO eager VALUES (0)")  # fmt: skip
    stack.assert_equal("patient", "eager")
    commits = len(stack.catalog().load_table("shop.patient").snapshots())
    for number in range(1, 4):
        stack.sql(f"INSERT INTO patient VALUES ({number + 1}, 'b')", f"UPDATE patient SET note = 'c{number}'",
                  f"INSERT INTO eager VALUES ({number})")  # fmt: skip
        wait_until(lambda expected=number: _count(stack, "eager") == expected + 1)
    assert _count(stack, "patient") == 1
    assert _lag(stack, "patient") > 0, "what is left out is told"
    stack.lakehouse("verify", "patient")
    stack.lakehouse("wait")
    assert _count(stack, "patient") == 4
    assert len(stack.catalog().load_table("shop.patient").snapshots()) == commits + 1
    stack.assert_equal("patient", "eager")


@pytest.mark.slow
def test_a_table_lies_as_its_spec_says(stack: Stack) -> None:
    stack.sql("CREATE TABLE laid_out (id bigint PRIMARY KEY, at timestamptz, note text)",
              "INSERT INTO laid_out SELECT g, timestamptz '2026-01-01' + g * interval '1 day', g FROM"
              " generate_series(1, 100) g")  # fmt: skip
    stack.assert_equal("laid_out")
    for day in range(3):
        stack.sql(f"UPDATE laid_out SET at = at + interval '20 days', note = 'b{day}' WHERE id % 3 = {day}",
                  f"DELETE FROM laid_out WHERE id = {day + 10}")  # fmt: skip
        stack.lakehouse("wait")
    table = stack.catalog().load_table("shop.laid_out")
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]", "month"]
    told = stack.lakehouse("table", "advise", "laid_out", "--where", "note")
    assert told["observed"]["batches"] >= 3
    assert 0 < told["observed"]["touched"] <= 1
    assert told["observed"]["filters"][0]["column"] == "note"
    assert told["advice"] == [], "so small a table has nothing to gain"
    unknown = stack.lakehouse("table", "advise", "laid_out", "--where", "nope", ok=(2,))
    assert "no column nope" in unknown["error"]
    done = {answer["task"]: answer for answer in stack.lakehouse("maintain", "laid_out", "--now")["done"]}
    assert not any(answer["error"] for answer in done.values())
    shown = stack.lakehouse("table", "show", "laid_out")
    assert shown["layout"]["partition"] == ["bucket(2, id)", "month(at)"]
    assert shown["delete_files"] == 0
    stack.assert_equal("laid_out")


def test_a_change_that_is_frozen_holds_the_table_until_it_is_undone_though_no_row_comes(stack: Stack) -> None:
    stack.sql("CREATE TABLE settled (id bigint PRIMARY KEY, note text)", "INSERT INTO settled VALUES (1, 'a')",
              "CREATE TABLE other (id bigint PRIMARY KEY)", "INSERT INTO other VALUES (1)")  # fmt: skip
    stack.assert_equal("settled", "other")
    stack.sql("ALTER TABLE settled RENAME COLUMN note TO remark")
    wait_until(lambda: "shop.public.settled" in stack.lakehouse("table", "list")["held"])
    # Whatever is decided of letters has the tables that are held tried again.
    stack.lakehouse("dlq", "accept", "shop.public.settled", "--because", "sent by a test")
    stack.sql("INSERT INTO other VALUES (2)")
    wait_until(lambda: _count(stack, "other") == 2 and _lag(stack, "other") == 0)
    held = stack.lakehouse("table", "list")["held"]["shop.public.settled"]
    assert "the spec freezes the rename of remark" in held
    stack.sql("ALTER TABLE settled RENAME COLUMN remark TO note")
    wait_until(lambda: "shop.public.settled" not in stack.lakehouse("table", "list")["held"])
    stack.assert_equal("settled", "other")
