"""Rows of a lake held against those of its source, whatever types a system keeps."""

import duckdb
import pytest

from tests.bench.exact import Column, Comparison, compare
from tests.bench.scan import state_of

COLUMNS = [Column("id", "whole"), Column("name", "text"), Column("at", "instant"), Column("on", "day")]
SOURCE = "SELECT 1 AS id, 'a' AS name, 1000000 AS at, 1 AS \"on\" UNION ALL SELECT 2, NULL, NULL, NULL"
TYPED = (
    "SELECT 1 AS id, 'a' AS name, TIMESTAMPTZ '1970-01-01 00:00:01+00' AS at, DATE '1970-01-02' AS \"on\""
    " UNION ALL SELECT 2, NULL, NULL, NULL"
)
AS_IT_ARRIVES = (
    "SELECT 1 AS id, 'a' AS name, '1970-01-01T00:00:01Z' AS at, 1 AS \"on\" UNION ALL SELECT 2, NULL, NULL, NULL"
)
CASES = {
    "typed": (TYPED, {}),
    "as it arrives": (AS_IT_ARRIVES, {}),
    "a row is missing": (f"SELECT * FROM ({TYPED}) WHERE id = 1", {"missing": 1}),
    "a row too many": (f"{TYPED} UNION ALL SELECT 3, 'x', NULL, NULL", {"extra": 1}),
    "a row twice": (f"{TYPED} UNION ALL SELECT 2, NULL, NULL, NULL", {"twice": 1}),
    "a null for a value": (f"SELECT * REPLACE (NULL::VARCHAR AS name) FROM ({TYPED})", {"differing": {"name": 1}}),
    "a value for a null": (f"SELECT * REPLACE ('a' AS name) FROM ({TYPED})", {"differing": {"name": 1}}),
    "a placeholder": (f"SELECT * REPLACE ('gone' AS name) FROM ({TYPED})", {"differing": {"name": 2}}),
    "a column is missing": (f"SELECT * EXCLUDE name FROM ({TYPED})", {"differing": {"name": 2}}),
}


def compared(lake: str, placeholder: str | None = None) -> Comparison:
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"CREATE TABLE source_rows AS {SOURCE}")
    return compare(duck, COLUMNS, ("id",), f"({lake})", placeholder)


@pytest.mark.parametrize(("lake", "found"), CASES.values(), ids=CASES.keys())
def test_compare(lake: str, found: dict[str, object]) -> None:
    it = compared(lake)
    said = {"missing": it.missing, "extra": it.extra, "twice": it.twice, "differing": it.differing}
    assert {name: value for name, value in said.items() if value} == found
    assert it.equal is not bool(found)


def test_a_placeholder_is_no_difference_to_who_keeps_events_as_they_come() -> None:
    lake, _ = CASES["a placeholder"]
    assert compared(lake, "gone").equal
    assert not compared(lake, "other").equal


def test_rows_that_were_deleted_are_all_that_may_be_left_out() -> None:
    assert compared(CASES["a row too many"][0]).equal_but_for_deletes
    assert not compared(CASES["a row is missing"][0]).equal_but_for_deletes


def test_the_state_of_a_table_of_events() -> None:
    events = (
        "(SELECT * FROM (VALUES (1, 'c', 0, 'a'), (1, 'u', 5, 'b'), (2, 'c', 1, 'c'), (2, 'd', 2, NULL),"
        " (3, 'd', 3, NULL), (3, 'c', 4, 'e')) AS t(id, _op, _kafka_offset, name))"
    )
    state = duckdb.sql(f"SELECT id, name FROM {state_of(events, ('id',), append_only=True)} ORDER BY id").fetchall()
    assert state == [(1, "b"), (3, "e")]
