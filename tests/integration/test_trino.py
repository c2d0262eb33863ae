"""Trino reads the lake as the other engines do: rows, types, deletes, and older snapshots; and writes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from trino.dbapi import Cursor, connect
from trino.exceptions import TrinoQueryError

from tests.integration.stack import Stack

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def trino(stack: Stack) -> Iterator[Cursor]:
    """A session as the stack's Trino gives it to anybody on this machine."""
    stack.start("trino")
    with connect(host="127.0.0.1", port=int(stack.setting("TRINO_PORT")), user="reader", catalog="lake") as session:
        yield session.cursor()


def rows(cursor: Cursor, statement: str) -> list[Any]:
    return [tuple(row) for row in cursor.execute(statement).fetchall()]


def test_what_the_lake_has_trino_reads(stack: Stack, trino: Cursor) -> None:
    stack.sql(
        "CREATE TABLE read_alike (id bigint PRIMARY KEY, amount numeric(12,2), big numeric(38,10), at timestamptz,"
        " local timestamp, day date, ok boolean, ratio double precision, small real, words text, raw bytea, u uuid)",
        "INSERT INTO read_alike SELECT g, g * 1.25, g * 1e20, timestamptz '2026-03-29 00:30:00Z' + g * interval '1 h',"
        " timestamp '2026-03-29 02:30:00' + g * interval '1 microsecond', date '2024-02-29' + g, g % 2 = 0, g / 3.0,"
        " g / 3.0, CASE WHEN g % 5 = 0 THEN NULL ELSE 'wörter ' || g END, decode(lpad(to_hex(g), 4, '0'), 'hex'),"
        " ('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid"
        " FROM generate_series(1, 60) g",
    )
    stack.assert_equal("read_alike")
    table = stack.catalog().load_table("shop.read_alike")
    before = table.current_snapshot()
    assert before is not None
    first = rows(trino, "SELECT id, words FROM shop.read_alike ORDER BY id")
    stack.sql("DELETE FROM read_alike WHERE id % 3 = 0", "UPDATE read_alike SET words = 'changed' WHERE id = 7")
    stack.assert_equal("read_alike")
    columns = "id, amount, big, at, local, day, ok, ratio, small, words, raw, u"
    mine = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert len(mine) == 40
    # A real as short as it can be written is the same real.
    exact = columns.replace("small", "CAST(small AS double)")
    seen = rows(trino, f"SELECT {exact} FROM shop.read_alike ORDER BY id")
    names = columns.split(", ")
    assert [dict(zip(names, row, strict=True)) for row in seen] == [{n: row[n] for n in names} for row in mine]
    # Position deletes are heeded in what is counted, too; and older snapshots have what they had.
    assert rows(trino, "SELECT count(*), sum(amount) FROM shop.read_alike") == [
        (40, sum(row["amount"] for row in mine))
    ]
    older = f"shop.read_alike FOR VERSION AS OF {before.snapshot_id}"
    assert rows(trino, f"SELECT id, words FROM {older} ORDER BY id") == first
    assert len(first) == 60


def test_trino_writes_nothing(stack: Stack, trino: Cursor) -> None:
    stack.sql("CREATE TABLE unwritten (id int PRIMARY KEY)", "INSERT INTO unwritten VALUES (1)")
    stack.assert_equal("unwritten")
    for statement in ("DELETE FROM shop.unwritten", "DROP TABLE shop.unwritten", "CREATE SCHEMA other"):
        with pytest.raises(TrinoQueryError, match=r"(?i)access denied|not allowed"):
            rows(trino, statement)
