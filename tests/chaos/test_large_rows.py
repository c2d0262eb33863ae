"""Rows that are larger than Kafka takes, on a stack of its own that takes small ones only."""

import re
from collections.abc import Iterator

import pytest

from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, wait_until
from tests.integration.unseen import looked_after, outcomes

LIMIT_MIB, TOO_LARGE_MIB = 1, 5
TEXT = "SELECT string_agg(md5(g::text || random()), '') FROM generate_series(1, {mib} * 32768) g"


HERE, PAGE = "tests/chaos/test_large_rows.py", RUNBOOKS / "row-too-large.md"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("small"), "process")
    running.prepare()
    env = running.folder / ".env"
    env.write_text(env.read_text().replace("LARGEST_ROW_MIB=64", f"LARGEST_ROW_MIB={LIMIT_MIB}"))
    try:
        running.up()
        running.sql(
            "CREATE TABLE notes (id int PRIMARY KEY, note text)",
            "CREATE TABLE scans (id int PRIMARY KEY, name text, scan text)",
            "INSERT INTO scans VALUES (1, 'before', 'x')",
        )
        running.lakehouse("wait")
        yield running
    finally:
        running.make("down")


def error(stack: Stack) -> str:
    return str(stack.report()["capture"]["error"])


def large() -> str:
    """An expression for a text that is too large."""
    return f"({TEXT.format(mib=TOO_LARGE_MIB)})"


def test_its_column_is_left_out(stack: Stack) -> None:
    stack.sql(f"INSERT INTO scans VALUES (7, 'large', {large()})", "INSERT INTO notes VALUES (1, 'behind it')")
    said = re.compile(r"a row of public\.scans \(id 7\) is a record of 5.*see infra/runbooks/row-too-large\.md")
    # Between two tries nothing is wrong.
    wait_until(lambda: said.search(error(stack)) is not None)
    refused = stack.lakehouse("capture", "exclude", "scans", "--column", "id", "--because", "too large", ok=(2,))
    assert "of public.scans's key" in refused["error"]
    follow(stack, PAGE, f"{HERE}::test_its_column_is_left_out", TABLE="scans", COLUMN="scan")
    stack.lakehouse("wait")
    report = stack.lakehouse("verify", "scans", "notes")
    assert {table["table"]: table["not_compared"] for table in report["tables"]} == {
        "public.notes": {}, "public.scans": {"scan": "excluded from capture by hand"},
    }  # fmt: skip


def test_its_table_is_left_out(stack: Stack) -> None:
    stack.sql("CREATE TABLE images (id int PRIMARY KEY, image text)", f"INSERT INTO images VALUES (1, {large()})")
    wait_until(lambda: "a row of public.images (id 1)" in error(stack))
    follow(stack, PAGE, f"{HERE}::test_its_table_is_left_out", TABLE="images")
    stack.sql("INSERT INTO notes VALUES (2, 'behind it')")
    stack.lakehouse("wait")
    assert "excluded by hand: its rows are too large" in stack.report()["capture"]["tables"]["public.images"]


def test_its_table_is_taken_in_again(stack: Stack) -> None:
    """The large ones get small, and all are read again."""
    stack.sql("UPDATE scans SET scan = left(scan, 1000)", "UPDATE images SET image = left(image, 1000)")
    stack.lakehouse("capture", "include", "scans", "--column", "scan")
    follow(stack, PAGE, f"{HERE}::test_its_table_is_taken_in_again", TABLE="images")
    wait_until(lambda: looked_after(outcomes(stack, ("scans", "images")), ("scans", "images")))
    stack.assert_equal("scans", "images", "notes")


def test_it_is_let_through(stack: Stack) -> None:
    stack.sql(f"INSERT INTO scans VALUES (8, 'let through', {large()})")
    wait_until(lambda: "a row of public.scans (id 8)" in error(stack))
    follow(stack, PAGE, f"{HERE}::test_it_is_let_through", MIB=str(TOO_LARGE_MIB))
    stack.assert_equal("scans")
