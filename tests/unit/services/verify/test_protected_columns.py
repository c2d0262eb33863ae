"""Protected columns are compared, and none of what is staged for that shows a value."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pydantic import SecretStr
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, LongType, NestedField, StringType

from pipelines.lake.properties import PROTECTED
from pipelines.ledger.entries import Ledger
from pipelines.protection.columns import ColumnProtection
from pipelines.protection.crypto import ProtectionKeys, place_of
from pipelines.sources.base.tables import SourceTable, TableColumn
from pipelines.sources.postgres.published import table_column
from quality.contract import Column, Contract
from quality.protection import Protection, masked
from services.stack import duckdb_functions
from services.stack.errors import CannotVerify
from services.stack.lake import PinnedTable
from services.verify import staging
from services.verify.columns import Plan
from services.verify.compare import Comparison, compare
from services.verify.overlay import Change, fold
from services.verify.protected_columns import plan

ID, NAME = table_column("id", "bigint", "int8"), table_column("v", "text", "text")
DATE, SIZE = table_column("v", "date", "date"), table_column("v", "numeric(9,2)", "numeric", typmod=((9 << 16) | 2) + 4)
PLACE = place_of(("public", "t"), "v")


def keys_of(secret: str) -> ProtectionKeys:
    keys = ProtectionKeys.of(SecretStr(secret * 8))
    assert keys is not None
    return keys


KEYS, OTHER = keys_of("one secret "), keys_of("another one ")


class Table:
    """What of PyIceberg's table is looked at."""

    def __init__(self, kind: IcebergType, entry: ColumnProtection) -> None:
        self.properties = {PROTECTED: json.dumps({"v": asdict(entry)})}
        self._schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))

    def schema(self) -> Schema:
        return self._schema


def planned(
    how: Protection, column: TableColumn = NAME, kind: str = "string", keys: ProtectionKeys | None = KEYS,
    contract: Contract | None = None, key: tuple[str, ...] = ("id",),
) -> tuple[Plan, PinnedTable]:  # fmt: skip
    entry = ColumnProtection(how, kind, KEYS.fingerprint if how in ("hash", "tokenise", "encrypt") else None,
                  PLACE if how == "encrypt" else None)  # fmt: skip
    there: Any = Table(DateType() if how == "drop" and kind == "date" else StringType(), entry)
    pinned = PinnedTable("shop", "t", "public", "t", "shop.public.t", key, 1, Ledger(), there)
    return plan(SourceTable("public", "t", (ID, column), key), pinned, contract, keys), pinned


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        duckdb_functions.register(opened, KEYS)
        yield opened


def compared(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, chosen: Plan, pinned: PinnedTable,
    source: list[str | None], lake: list[str | None], changes: tuple[Change, ...] = (), kind: str = "VARCHAR",
) -> Comparison:  # fmt: skip
    ids = [f"{n}" for n in range(len(source))]
    batch = pa.record_batch([pa.array(ids, pa.string()), pa.array(source, pa.string())], ["c0", "c1"])
    staging.stage_source(connection, chosen.compared, iter([batch]), lambda _: None)
    connection.execute(f"CREATE OR REPLACE TABLE snapshot (c0 BIGINT, c1 {kind}, lsn BIGINT)")
    connection.executemany("INSERT INTO snapshot VALUES (?, ?, 1)", [[n, value] for n, value in enumerate(lake)])
    monkeypatch.setattr(staging, "pinned_rows", lambda *_: "snapshot")
    staging.stage_lake(connection, chosen.compared, pinned, fold(changes, keyless=not pinned.key))
    return compare(connection, chosen.compared, pinned.key, 5)


def made(how: Protection, text: str | None) -> str | None:
    if text is None or how == "drop":
        return None
    return {"hash": KEYS.hashed, "tokenise": KEYS.tokenised, "mask": masked,
            "encrypt": lambda value: KEYS.encrypted(value, PLACE)}[how](text)  # fmt: skip


HOW: tuple[Protection, ...] = ("hash", "tokenise", "mask", "encrypt", "drop")
KINDS = [(NAME, "string", ["ada", "", None]), (DATE, "date", ["1815-12-10", "0044-03-15 BC", None]),
         (SIZE, "decimal(9, 2)", ["12.50", "-0.05", None])]  # fmt: skip
TEXTS = {"0044-03-15 BC": "-0043-03-15"}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("column", "kind", "values"), KINDS, ids=["text", "date", "numeric"])
def test_equal(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, how: Protection, column: TableColumn,
    kind: str, values: list[str | None],
) -> None:  # fmt: skip
    chosen, pinned = planned(how, column, kind)
    lake = [made(how, TEXTS.get(value, value) if value else value) for value in values]
    stored = "DATE" if (how, kind) == ("drop", "date") else "VARCHAR"
    found = compared(connection, monkeypatch, chosen, pinned, values, lake, kind=stored)
    assert (found.differing, found.missing, found.extra, found.examples) == (0, 0, 0, [])


@pytest.mark.parametrize("how", HOW)
def test_another_value_differs_and_isnt_shown(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, how: Protection
) -> None:
    chosen, pinned = planned(how)
    found = compared(connection, monkeypatch, chosen, pinned, ["the secret"], [made("hash", "other")])
    assert found.differing == 1
    assert "secret" not in repr(found.examples)
    if how != "drop":
        assert "secret" not in repr(connection.execute(f"SELECT * FROM {staging.SOURCE}").fetchall())


@pytest.mark.parametrize("how", ["hash", "encrypt"])
def test_what_comes_by_the_topic(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, how: Protection
) -> None:
    chosen, pinned = planned(how, DATE, "date")
    changes = (Change(0, 1, "u", 5, (0,), {"id": 0, "v": 1}), Change(0, 2, "c", 6, (2,), {"id": 2, "v": None}))
    found = compared(connection, monkeypatch, chosen, pinned, ["1970-01-02", "1970-01-05", None],
                     [made(how, "1970-01-09"), made(how, "1970-01-05")], changes)  # fmt: skip
    assert (found.differing, found.missing, found.extra) == (0, 0, 0)


def test_without_a_key(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, pinned = planned("hash", key=())
    changes = (Change(0, 1, "u", 5, (), {"id": 0, "v": "x"}, before={"id": 0, "v": "a"}),)
    found = compared(connection, monkeypatch, chosen, pinned, ["x", "b"], [made("hash", "a"), made("hash", "b")],
                     changes)  # fmt: skip
    assert (found.missing, found.extra) == (0, 0)


def test_a_value_that_the_type_cant_hold_isnt_shown(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, pinned = planned("hash", SIZE, "decimal(9, 2)")
    found = compared(connection, monkeypatch, chosen, pinned, ["NaN"], [None])
    assert "NaN" not in repr(found.examples)
    assert "v = (protected)" in repr(found.examples)


@pytest.mark.parametrize(("source", "lake", "equal"), [
    ("7", None, True), ("7", "7", True), ("7", "8", False), ("a", "a", True), ("a", None, False),
])  # fmt: skip
def test_what_is_null_by_contract(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, source: str, lake: str | None, equal: bool
) -> None:
    promised = Column("v", options={"pattern": "^[a-z]+$"}, on_violation="null", protection="hash")
    chosen, pinned = planned("hash", contract=Contract(("public", "t"), "1", "active", (Column("id", key=1), promised)))
    found = compared(connection, monkeypatch, chosen, pinned, [source], [made("hash", lake)])
    assert (found.differing == 0) == equal


def test_a_value_of_another_type_isnt_shown(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, pinned = planned("hash", DATE, "date")
    changes = (Change(0, 1, "u", 5, (0,), {"id": 0, "v": "a secret"}),)
    with pytest.raises(CannotVerify, match="values of v on the topic don't fit DATE") as raised:
        compared(connection, monkeypatch, chosen, pinned, ["1970-01-02"], [None], changes)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_what_isnt_compared_has_a_reason() -> None:
    for how in ("hash", "tokenise", "encrypt"):
        assert planned(how, keys=None)[0].not_compared == {"v": f"protected ({how}): there is no PROTECTION_KEY here"}
        assert "with another key" in planned(how, keys=OTHER)[0].not_compared["v"]
    assert planned("mask", keys=None)[0].not_compared == planned("drop", keys=None)[0].not_compared == {}
    hstore = table_column("v", "hstore", "hstore")
    assert "hstore" in planned("hash", hstore)[0].not_compared["v"]


def test_what_was_altered_in_the_lake_differs(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, pinned = planned("encrypt")
    moved = KEYS.encrypted("ada", place_of(("public", "t"), "other"))
    assert compared(connection, monkeypatch, chosen, pinned, ["ada"], [moved]).differing == 1
