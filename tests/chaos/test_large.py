"""Much at once, on a stack of its own: rows of one transaction, new tables. It takes many minutes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stack import Stack

ROWS = 500_000


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    running = Stack(tmp_path, "process")
    running.prepare()
    try:
        running.up()
        yield running
    finally:
        running.make("down")


def test_half_a_million_rows_in_one_transaction(stack: Stack) -> None:
    stack.sql("CREATE TABLE large (id int PRIMARY KEY, note text, amount numeric(12,2))")
    for label, statements in (
        ("inserted", f"INSERT INTO large SELECT g, 'note ' || g, g / 7.0 FROM generate_series(1, {ROWS}) g"),
        ("half updated, a quarter deleted", "BEGIN; UPDATE large SET note = 'b' WHERE id % 2 = 0;"
                                            " DELETE FROM large WHERE id % 4 = 0; COMMIT"),
    ):  # fmt: skip
        started = time.monotonic()
        stack.sql(statements)
        written = time.monotonic()
        stack.lakehouse("wait", "--timeout", "3000")
        seen = time.monotonic()
        print(f"{label}: {written - started:.0f} s in the source, {seen - written:.0f} s more until in the lake")
        stack.assert_equal("large")
    print(stack.status())


def test_two_hundred_tables_at_once(stack: Stack) -> None:
    stack.sql("CREATE TABLE beside (id int PRIMARY KEY)", "INSERT INTO beside VALUES (1)")
    stack.assert_equal("beside")
    make = "EXECUTE format('CREATE TABLE n%s (id int PRIMARY KEY); INSERT INTO n%s VALUES (1)', i, i)"
    stack.sql(f"DO $$BEGIN FOR i IN 1..200 LOOP {make}; END LOOP; END$$", "INSERT INTO beside VALUES (2)")
    stack.lakehouse("wait", "--tables", "beside", "--timeout", "600")
    stack.lakehouse("wait", "--timeout", "1800")
    report = stack.assert_equal()
    assert {f"public.n{i}" for i in range(1, 201)} <= {table["table"] for table in report["tables"]}
