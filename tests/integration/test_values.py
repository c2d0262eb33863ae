"""Whatever a source holds: odd names, families of tables, all types, records that nobody should send."""

import psycopg
import pytest
from psycopg import sql

from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process

# Table: its key column and the others.
NAMES = {
    "My Orders": (
        "id", ["my col", "größe", "select", "op", "row", "key", "_x", "partition", "offset", "$a", 'q"`', "1st"],
    ),
    "na-me.with$all`ticks\"q'[*]": ("id", ["value"]),
    "žena5": ("klíč č", ["名前", "住所"]),
    "注文": ("id", ["v"]),
    "顧客": ("id", ["v"]),
    "Select": ("id", ["v"]),
    "select": ("id", ["v"]),
    "1st-one": ("id", ["v"]),
    "n" * 63: ("k" * 63, ["c" * 63]),
}  # fmt: skip


def _write(source: psycopg.Connection, table: str) -> None:
    """Rows that are inserted, updated, given another key and deleted."""
    key, columns = NAMES[table]
    names = {"t": sql.Identifier(table), "k": sql.Identifier(key), "c": sql.Identifier(columns[-1])}
    definitions = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in columns)
    long = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 300) i)"
    statements = (
        "CREATE TABLE {t} ({k} int PRIMARY KEY, {d})",
        f"INSERT INTO {{t}} ({{k}}, {{c}}) SELECT g, g || {long} FROM generate_series(1, 4) g",
        "UPDATE {t} SET {c} = 'changed' WHERE {k} = 1",
        "UPDATE {t} SET {k} = 12 WHERE {k} = 2",
        "DELETE FROM {t} WHERE {k} = 3",
    )
    for statement in statements:
        source.execute(sql.SQL(statement).format(d=definitions, **names))


def test_names_of_every_kind(stack: Stack) -> None:
    with stack.source() as source:
        for table in NAMES:
            _write(source, table)
        with pytest.raises(
            psycopg.errors.RaiseException, match=r'the columns "Id" and id of public\.twins differ only'
        ):
            source.execute('CREATE TABLE twins (id int PRIMARY KEY, "Id" int)')
        source.execute('CREATE TABLE dotted (id int PRIMARY KEY, "a.b" int)')
        source.execute("CREATE TABLE reserved (id int PRIMARY KEY, _lsn int)")
    wait_until(lambda: "the column a.b has a dot in its name" in stack.status())
    assert "the column _lsn has a name that the lake uses itself" in stack.status()
    report = stack.assert_equal(*NAMES)
    assert [table["rows_lake"] for table in report["tables"]] == [3] * len(NAMES)
    for table, (key, columns) in NAMES.items():
        shown = stack.lakehouse("table", "show", table)
        assert [column["name"] for column in shown["columns"]][: 1 + len(columns)] == [key, *columns]
    with stack.source() as source:
        source.execute('ALTER TABLE "žena5" RENAME COLUMN "名前" TO "a b"')
        source.execute('ALTER TABLE "žena5" ADD COLUMN "a_b" uuid DEFAULT gen_random_uuid()')
    wait_until(lambda: bool(stack.lakehouse("verify", "žena5", ok=(0, 1))["equal"]))
    assert stack.lakehouse("schema", "history", "žena5")["changes"][0]["done"] == ["rename 名前 to a b"]
    stack.sql("DROP TABLE dotted", "DROP TABLE reserved", *(f'DROP TABLE "{n}"' for n in ("1st-one", "注文", "顧客")))
