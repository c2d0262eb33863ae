"""Fingerprints: labelled pairs of a source's rows and a lake's, with what the tail of the topic changes."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pipelines.ledger.entries import Ledger
from pipelines.sources.postgres.published import table_column
from services.stack.lake import PinnedTable
from services.verify import staging
from services.verify.columns import ComparedColumn
from services.verify.fingerprint import Fingerprint, fingerprint_lake, fingerprint_source
from services.verify.overlay import Change, fold

COLUMNS = [
    ComparedColumn(table_column("n", "int", "int4"), "INTEGER", "BIGINT"),
    ComparedColumn(table_column("a", "text", "text"), "VARCHAR", "VARCHAR"),
    ComparedColumn(table_column("b", "text", "text"), "VARCHAR", "VARCHAR"),
]
Row = tuple[int | None, str | None, str | None]
ROWS: list[Row] = [(1, "x", "y"), (2, "x", "z"), (2, "x", "z"), (3, None, "")]


def fingerprint_of(rows: list[Row], batch: int = 2) -> Fingerprint:
    schema = pa.schema([(f"c{i}", pa.string()) for i in range(3)])
    texts = [dict(zip(schema.names, (n if n is None else str(n), a, b), strict=True)) for n, a, b in rows]
    parts = [texts[start : start + batch] for start in range(0, len(texts), batch)]
    batches = [pa.RecordBatch.from_pylist(part, schema) for part in parts]
    with duckdb.connect() as connection:
        return fingerprint_source(connection, COLUMNS, iter(batches), lambda _: None)


def fingerprint_with(
    monkeypatch: pytest.MonkeyPatch, rows: list[Row], changes: list[Change], key: tuple[str, ...] = ()
) -> Fingerprint:
    """The fingerprint of a snapshot's rows with a tail laid over them."""
    pinned = PinnedTable("shop", "t", "public", "t", "shop.public.t", key, 1, Ledger(), table=None)  # type: ignore[arg-type]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE snapshot (c0 BIGINT, c1 VARCHAR, c2 VARCHAR, lsn BIGINT)")
        for row in rows:
            connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, 100)", row)
        monkeypatch.setattr(staging, "pinned_rows", lambda *_: "(SELECT * FROM snapshot)")
        staging.stage_lake(connection, COLUMNS, pinned, fold(changes, keyless=not key), with_removed=True)
        return fingerprint_lake(connection, COLUMNS, not key, lambda _: None)


LAKES: list[tuple[str, list[Row], bool]] = [
    ("the same", ROWS, True),
    ("another order", ROWS[::-1], True),
    ("a row less", ROWS[1:], False),
    ("a row more", [*ROWS, (4, "x", "y")], False),
    ("a doubled row", [*ROWS, ROWS[0]], False),
    ("one of two equal rows replaced by another's copy", [ROWS[0], ROWS[0], ROWS[1], ROWS[3]], False),
    ("a value swapped with another row's", [(1, "x", "z"), (2, "x", "y"), *ROWS[2:]], False),
    ("a value swapped with another column's", [(1, "y", "x"), *ROWS[1:]], False),
    ("a null swapped with an empty text", [*ROWS[:3], (3, "", None)], False),
    ("values cut elsewhere", [(1, "xy", ""), *ROWS[1:]], False),
    ("a value that looks like what separates values", [(1, "x1:y", ""), *ROWS[1:]], False),
    ("a null that is a word", [*ROWS[:3], (3, "-", "")], False),
    ("another value", [(7, "x", "y"), *ROWS[1:]], False),
    ("nothing", [], False),
]


@pytest.mark.parametrize(("label", "rows", "equal"), LAKES, ids=[case[0] for case in LAKES])
def test_only_equal_multisets_have_equal_fingerprints(
    monkeypatch: pytest.MonkeyPatch, label: str, rows: list[Row], equal: bool
) -> None:
    found = fingerprint_with(monkeypatch, rows, [])
    assert (found == fingerprint_of(ROWS)) is equal
    assert found.rows == len(rows)


def row(n: int | None, a: str | None, b: str | None) -> dict[str, Any]:
    return {"n": n, "a": a, "b": b}


TAILS: list[tuple[str, list[Change], list[Row]]] = [
    ("added", [Change(0, 1, "c", 200, (), row(4, "d", "e"))], [*ROWS, (4, "d", "e")]),
    ("one of two equal ones removed", [Change(0, 1, "d", 200, (), row(2, "x", "z"))], [ROWS[0], ROWS[1], ROWS[3]]),
    (
        "more removed than there are",
        [Change(0, n, "d", 200 + n, (), row(2, "x", "z")) for n in range(5)],
        [ROWS[0], ROWS[3]],
    ),
    ("one removed that isn't there", [Change(0, 1, "d", 200, (), row(9, "x", "z"))], ROWS),
    (
        "changed",
        [Change(0, 1, "u", 200, (), row(1, "x", None), before=row(1, "x", "y"))],
        [(1, "x", None), *ROWS[1:]],
    ),
    (
        "added and removed",
        [Change(0, 1, "c", 200, (), row(4, "d", "e")), Change(0, 2, "d", 210, (), row(4, "d", "e"))],
        ROWS,
    ),
    ("truncated", [Change(0, 1, "t", 150), Change(0, 2, "c", 200, (), row(4, "d", "e"))], [(4, "d", "e")]),
]


@pytest.mark.parametrize(("label", "changes", "rows"), TAILS, ids=[case[0] for case in TAILS])
def test_the_tail_is_laid_over_the_rows(
    monkeypatch: pytest.MonkeyPatch, label: str, changes: list[Change], rows: list[Row]
) -> None:
    assert fingerprint_with(monkeypatch, ROWS, changes) == fingerprint_of(rows)


def test_a_key_that_has_no_order_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [
        Change(0, 1, "d", 200, (1,), row(1, None, None)),
        Change(0, 2, "u", 210, (3,), row(3, "new", None), frozenset({"b"})),
    ]
    rows: list[Row] = [(1, "x", "y"), (2, "x", "z"), (3, None, "kept")]
    found = fingerprint_with(monkeypatch, rows, changes, key=("n",))
    assert found == fingerprint_of([(2, "x", "z"), (3, "new", "kept")])


def test_sums_wrap_around() -> None:
    assert fingerprint_of(ROWS * 50, batch=7) == fingerprint_of(ROWS * 50, batch=200)
    assert fingerprint_of(ROWS * 50).low < 1 << 64
    assert fingerprint_of(ROWS).plus(fingerprint_of(ROWS), -1) == Fingerprint()
