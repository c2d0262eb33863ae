"""Tables whose rows change though no event tells it, and what is done to them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tests.integration.stack import Stack, wait_until

# How each table is made, and what is done to it.
TABLES: dict[str, tuple[str, list[str]]] = {
    "tiers": (
        "CREATE TABLE tiers (id int, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);"
        "CREATE TABLE tiers_a PARTITION OF tiers FOR VALUES IN ('a');"
        "CREATE TABLE tiers_b PARTITION OF tiers FOR VALUES IN ('b');"
        "CREATE TABLE tiers_d PARTITION OF tiers FOR VALUES IN ('d');"
        "INSERT INTO tiers SELECT g, (array['a', 'b', 'd'])[1 + g % 3], g FROM generate_series(1, 300) g",
        [
            "ALTER TABLE tiers ADD tier int NOT NULL DEFAULT 7",
            "ALTER TABLE tiers ALTER v TYPE text USING 'n' || v",
            "ALTER TABLE tiers ALTER tier TYPE int USING tier * 10",
            "CREATE TABLE filled (id int, region text, v text, tier int NOT NULL, PRIMARY KEY (id, region));"
            "INSERT INTO filled SELECT g, 'c', g, 9 FROM generate_series(1, 50) g;"
            "ALTER TABLE tiers ATTACH PARTITION filled FOR VALUES IN ('c')",
            "ALTER TABLE tiers DETACH PARTITION tiers_b",
            "DROP TABLE tiers_d",
        ],
    ),
    "cents": (
        "CREATE TABLE cents (id int PRIMARY KEY, cents int);"
        "INSERT INTO cents SELECT g, g FROM generate_series(1, 100) g",
        ["ALTER TABLE cents ALTER cents TYPE int USING cents * 100"],
    ),
    "whole": (
        "CREATE TABLE whole (cents int, note text); INSERT INTO whole SELECT g % 7, 'a' FROM generate_series(1, 50) g",
        ["ALTER TABLE whole ALTER cents TYPE int USING cents * 100", "UPDATE whole SET note = 'b' WHERE cents = 300"],
    ),
    "unlogged": (
        "CREATE TABLE unlogged (id int PRIMARY KEY, v text);"
        "INSERT INTO unlogged SELECT g, 'a' FROM generate_series(1, 150) g",
        [
            "ALTER TABLE unlogged SET UNLOGGED", "DELETE FROM unlogged WHERE id <= 50",
            "UPDATE unlogged SET v = 'b' WHERE id > 100",
            "INSERT INTO unlogged SELECT g FROM generate_series(201, 220) g",
            "ALTER TABLE unlogged SET LOGGED",
        ],
    ),
    "away": (
        "CREATE TABLE away (id int PRIMARY KEY, v text); INSERT INTO away SELECT g, 'a' FROM generate_series(1, 100) g",
        [
            "CREATE SCHEMA archive", "ALTER TABLE away SET SCHEMA archive", "DELETE FROM archive.away WHERE id <= 30",
            "UPDATE archive.away SET v = 'b' WHERE id > 90", "ALTER TABLE archive.away SET SCHEMA public",
        ],
    ),
    "states": (
        "CREATE TYPE state AS ENUM ('new', 'in_prgs'); CREATE TYPE spot AS (x int, y int);"
        "CREATE TABLE states (id int PRIMARY KEY, s state, spot spot);"
        "INSERT INTO states VALUES (1, 'new', '(1,2)'), (2, 'in_prgs', '(3,4)')",
        [
            "ALTER TYPE state RENAME VALUE 'in_prgs' TO 'in_progress'", "ALTER TYPE spot ADD ATTRIBUTE z int",
            "ALTER TYPE spot RENAME ATTRIBUTE x TO a",
        ],
    ),
    "swapped": (
        "CREATE TABLE swapped (v int); INSERT INTO swapped SELECT g FROM generate_series(1, 20) g",
        [
            "BEGIN; CREATE TABLE n AS SELECT v + 100 AS v FROM swapped;"
            "INSERT INTO n SELECT g FROM generate_series(1, 10) g; DROP TABLE swapped; ALTER TABLE n RENAME TO swapped;"
            "COMMIT",
        ],
    ),
    "rebuilt": (
        "CREATE TABLE rebuilt (id int PRIMARY KEY, v int);"
        "INSERT INTO rebuilt SELECT g, g FROM generate_series(1, 201) g",
        [
            statement
            for n in range(5)
            for statement in (
                f"BEGIN; CREATE TABLE n AS SELECT *, {n} AS extra_{n} FROM rebuilt; ALTER TABLE n ADD PRIMARY KEY (id);"
                "DROP TABLE rebuilt; ALTER TABLE n RENAME TO rebuilt; COMMIT",
                f"UPDATE rebuilt SET v = v + 1000 WHERE id % 5 = {n}",
            )
        ],
    ),
    "zoned": (
        "CREATE DOMAIN euros AS numeric(10,2);"
        "CREATE TABLE zoned (id int PRIMARY KEY, at timestamp, a numeric(10,2), b numeric(10,2), c euros,"
        " v varchar(9));"
        "INSERT INTO zoned SELECT g, '2026-01-01'::timestamp + g * interval '1 day', g / 7.0, g / 9.0, g / 11.0, g FROM"
        " generate_series(1, 40) g",
        [
            "SET timezone = 'UTC'; ALTER TABLE zoned ALTER at TYPE timestamptz",
            "ALTER TABLE zoned ALTER a TYPE numeric",
            "ALTER TABLE zoned ALTER b TYPE numeric(40,2)", "ALTER TABLE zoned ALTER c TYPE numeric(10,2)",
            "ALTER TABLE zoned ALTER v TYPE text",
            "UPDATE zoned SET a = 1.23456789012, v = 'longer than nine' WHERE id = 3",
        ],
    ),
}  # fmt: skip
# In a session whose event triggers don't fire.
SILENT: dict[str, tuple[str, list[str]]] = {
    "silent": (
        "CREATE TABLE silent (id int PRIMARY KEY, v int); INSERT INTO silent SELECT g, g FROM generate_series(1, 60) g",
        ["ALTER TABLE silent ADD w int DEFAULT 5", "ALTER TABLE silent RENAME v TO u",
         "ALTER TABLE silent ALTER w TYPE int USING w * 2",
         # As pg_restore --disable-triggers loads a table.
         "ALTER TABLE silent DISABLE TRIGGER ALL; INSERT INTO silent SELECT g, g, 1 FROM generate_series(61, 80) g;"
         " ALTER TABLE silent ENABLE TRIGGER ALL"],
    ),
    "made_silently": (
        "",
        ["CREATE TABLE made_silently (id int PRIMARY KEY, v text)", "ALTER TABLE made_silently OWNER TO shop",
         "INSERT INTO made_silently VALUES (1, 'a'), (2, 'b')"],
    ),
    "rewritten_silently": (
        "CREATE TABLE rewritten_silently (id int PRIMARY KEY, v int);"
        "INSERT INTO rewritten_silently SELECT g, g FROM generate_series(1, 60) g",
        ["ALTER TABLE rewritten_silently ALTER v TYPE int USING v * 2"],
    ),
}  # fmt: skip


@contextmanager
def administrator(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    dsn = make_conninfo(
        stack.endpoints["source_dsn"], user="postgres", password=stack.setting("SOURCE_DB_ADMIN_PASSWORD")
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def outcomes(stack: Stack, tables: Iterable[str]) -> dict[str, set[str | None]]:
    """What became of each of these tables, once for every time that it was found to have changed."""
    query = "SELECT table_name, array_agg(outcome) FROM lakehouse.rereads WHERE table_name = ANY (%s) GROUP BY 1"
    with stack.source() as source:
        return {table: set(found) for table, found in source.execute(query, (list(tables),))}


def change(
    stack: Stack, tables: Mapping[str, tuple[str, list[str]]], silent: Mapping[str, tuple[str, list[str]]]
) -> None:
    """Make the tables, change them, and wait until each is looked after; the lake equals the source then."""
    names = [*tables, *silent]
    stack.sql(*(create for create, _ in (*tables.values(), *silent.values()) if create))
    stack.assert_equal(*tables, *(name for name, (create, _) in silent.items() if create))
    assert outcomes(stack, names) == {}
    for _, changes in tables.values():
        stack.sql(*changes)
    with administrator(stack) as session:
        session.execute("SET event_triggers = off")
        for _, changes in silent.values():
            for statement in changes:
                session.execute(statement.encode())
    wait_until(lambda: looked_after(outcomes(stack, names), names))
    assert outcomes(stack, names) == {name: {"the lake equals its source"} for name in names}
    stack.assert_equal(*names)


def looked_after(found: Mapping[str, set[str | None]], names: Iterable[str]) -> bool:
    """Whether each of these tables was read again, and nothing of them waits for it."""
    return found.keys() == set(names) and not any(None in each for each in found.values())
