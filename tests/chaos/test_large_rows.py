"""Rows that are larger than Kafka takes, on a stack of its own that takes small ones only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stack import Stack, wait_until

LIMIT_MIB, TOO_LARGE_MIB = 1, 5
TEXT = "SELECT string_agg(md5(g::text || random()), '') FROM generate_series(1, {mib} * 32768) g"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    running = Stack(tmp_path, "process")
    running.prepare()
    env = running.folder / ".env"
    env.write_text(env.read_text().replace("LARGEST_ROW_MIB=64", f"LARGEST_ROW_MIB={LIMIT_MIB}"))
    try:
        running.up()
        yield running
    finally:
        running.make("down")


def error(stack: Stack) -> str:
    return str(stack.report()["capture"]["error"])


def test_a_row_that_is_too_large_is_named_and_the_others_go_on_without_it(stack: Stack) -> None:
    """By its column left out, by its table left out, and by letting it through."""
    large = f"({TEXT.format(mib=TOO_LARGE_MIB)})"
    stack.sql(
        "CREATE TABLE notes (id int PRIMARY KEY, note text)",
        "CREATE TABLE scans (id int PRIMARY KEY, name text, scan text)",
        "INSERT INTO scans VALUES (1, 'before', 'x')",
    )
    stack.lakehouse("wait")
    stack.sql(f"INSERT INTO scans VALUES (7, 'large', {large})", "INSERT INTO notes VALUES (1, 'behind it')")
    wait_until(lambda: "a row of public.scans (id 7) is a record of 5" in error(stack))
    assert "infra/runbooks/row-too-large.md" in error(stack)
    refused = stack.lakehouse("capture", "exclude", "scans", "--column", "id", "--because", "too large", ok=(2,))
    assert "of public.scans's key" in refused["error"]
    stack.lakehouse("capture", "exclude", "scans", "--column", "scan", "--because", "too large")
    stack.lakehouse("wait")
    report = stack.lakehouse("verify", "scans", "notes")
    assert {table["table"]: table["not_compared"] for table in report["tables"]} == {
        "public.notes": {}, "public.scans": {"scan": "excluded from capture by hand"},
    }  # fmt: skip

    stack.sql("CREATE TABLE images (id int PRIMARY KEY, image text)", f"INSERT INTO images VALUES (1, {large})")
    wait_until(lambda: "a row of public.images (id 1)" in error(stack))
    stack.lakehouse("capture", "exclude", "images", "--because", "too large")
    stack.sql("INSERT INTO notes VALUES (2, 'behind it')")
    stack.lakehouse("wait")
    assert "excluded by hand: too large" in stack.report()["capture"]["tables"]["public.images"]

    # The large ones get small, and all are read again.
    stack.sql("UPDATE scans SET scan = left(scan, 1000)", "UPDATE images SET image = left(image, 1000)")
    stack.lakehouse("capture", "include", "scans", "--column", "scan")
    stack.lakehouse("capture", "include", "images")
    wait_until(lambda: not stack.report()["capture"]["changed_without_events"])
    stack.assert_equal("scans", "images", "notes")

    stack.sql(f"INSERT INTO scans VALUES (8, 'let through', {large})")
    wait_until(lambda: "a row of public.scans (id 8)" in error(stack))
    env = stack.folder / ".env"
    env.write_text(env.read_text().replace(f"LARGEST_ROW_MIB={LIMIT_MIB}\n", f"LARGEST_ROW_MIB={TOO_LARGE_MIB}\n"))
    stack.up()
    stack.assert_equal("scans")
