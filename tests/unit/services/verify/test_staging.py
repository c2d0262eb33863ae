"""The overlay laid over a snapshot, in DuckDB."""

from typing import Any

import duckdb
import pytest

from pipelines.ledger.entries import Ledger
from pipelines.sources.postgres.published import table_column
from services.stack.lake import PinnedTable
from services.verify import staging
from services.verify.columns import ComparedColumn
from services.verify.overlay import Change, fold

COLUMNS = [
    ComparedColumn(table_column("id", "bigint", "int8"), "BIGINT", "BIGINT"),
    ComparedColumn(table_column("v", "text", "text"), "VARCHAR", "VARCHAR"),
    ComparedColumn(table_column("big", "text", "text"), "VARCHAR", "VARCHAR"),
]
SNAPSHOT = "(1, 'a', 'A', 100), (2, 'b', 'B', 110), (3, 'c', 'C', 120)"


def rows(monkeypatch: pytest.MonkeyPatch, changes: list[Change], key: tuple[str, ...] = ("id",)) -> list[Any]:
    snapshot = f"(SELECT * FROM (VALUES {SNAPSHOT}) AS v(c0, c1, c2, lsn))"
    monkeypatch.setattr(staging, "pinned_rows", lambda *_: snapshot)
    table: Any = None
    pinned = PinnedTable("shop", "t", "public", "t", "shop.public.t", key, 1, Ledger(), table)
    with duckdb.connect() as connection:
        staging.stage_lake(connection, COLUMNS, pinned, fold(changes, keyless=not key))
        return connection.execute(f"SELECT * FROM {staging.LAKE} ORDER BY ALL").fetchall()


def row(key: int, v: str | None = None, big: str | None = None) -> dict[str, Any]:
    return {"id": key, "v": v, "big": big}


def test_nothing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(monkeypatch, []) == [(1, "a", "A"), (2, "b", "B"), (3, "c", "C")]


def test_update_insert_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        Change(0, 1, "u", 200, (1,), row(1, "x", None), frozenset({"big"})),
        Change(0, 2, "d", 210, (2,), row(2)),
        Change(0, 3, "c", 220, (4,), row(4, "d", "D")),
    ]
    assert rows(monkeypatch, changes) == [(1, "x", "A"), (3, "c", "C"), (4, "d", "D")]


def test_key_change_takes_the_unchanged_value_along(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        Change(0, 1, "d", 200, (1,), row(1)),
        Change(1, 1, "c", 200, (9,), row(9, "x"), frozenset({"big"}), (1,)),
    ]
    assert rows(monkeypatch, changes) == [(2, "b", "B"), (3, "c", "C"), (9, "x", "A")]


def test_truncate_clears_older_rows_of_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(monkeypatch, [Change(0, 1, "t", 115)]) == [(3, "c", "C")]


def test_rows_without_a_key_are_added_and_removed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        Change(1, 1, "d", 230, (), row(4)),
        Change(0, 1, "c", 200, (), row(1, "a", "A")),
        Change(0, 2, "u", 210, (), row(4), before=row(1, "a", "A")),
        Change(0, 3, "u", 220, (), row(4), before=row(2, "b", "B")),
        Change(1, 2, "d", 240, (), row(9)),
    ]
    assert rows(monkeypatch, changes, key=()) == [(1, "a", "A"), (3, "c", "C"), (4, None, None)]
