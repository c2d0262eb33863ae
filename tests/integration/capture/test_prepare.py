"""The source's preparation, in a PostgreSQL of the tests' own. No capture runs: PostgreSQL itself refuses updates of
published tables that lack an identity.
"""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from pipelines.sources.base.capture import Mode
from pipelines.sources.postgres.capture import prepare_sql
from pipelines.sources.postgres.capture_tables import classify, left_out, read_states
from tests.integration.postgres import Server

KEYLESS = "CREATE TABLE keyless (a int); INSERT INTO keyless VALUES (1)"
HIDDEN = "a column whose unchanged value Debezium can't mark"


def prepare(server: Server, database: str, *schemas: str) -> None:
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as connection:
        script = prepare_sql(schemas or ("public",), password="it's \\ secret", owner="shop")
        connection.execute(script.encode())


@pytest.fixture
def database(server: Server) -> str:
    return server.new_database("capture")


@pytest.fixture
def shop(server: Server, database: str) -> Iterator[psycopg.Connection]:
    """The owner's session in a prepared database that had a keyless table before."""
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE older (a int); INSERT INTO older VALUES (1)")
        prepare(server, database)
        yield connection


def identity(connection: psycopg.Connection, table: str) -> str:
    row = connection.execute("SELECT relreplident::text FROM pg_class WHERE oid = %s::regclass", (table,)).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    ("ddl", "table", "expected"),
    [
        ("CREATE TABLE t (a int)", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY)", "t", "d"),
        ("CREATE TABLE t AS SELECT 1 AS a", "t", "f"),
        ("SELECT 1 AS a INTO t", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t DROP CONSTRAINT t_pkey", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", "t", "d"),
        ("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", "t", "f"),
        ("CREATE TABLE t (a int NOT NULL UNIQUE); ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key", "t", "i"),
        ("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL UNIQUE);"
         " ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key", "t", "f"),
        ("CREATE TABLE t (a int NOT NULL UNIQUE, b int NOT NULL UNIQUE);"
         " ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key", "t", "f"),
        ("CREATE TABLE t (a int NOT NULL); CREATE UNIQUE INDEX u ON t (a); DROP INDEX u", "t", "f"),
        ("CREATE TABLE s.t (a int); ALTER TABLE s.t SET SCHEMA public", "t", "f"),
        ("CREATE TABLE t (a int, b int) PARTITION BY RANGE (a); CREATE TABLE p PARTITION OF t DEFAULT", "t", "f"),
        ("CREATE TABLE t (a int, b int) PARTITION BY RANGE (a); CREATE TABLE p PARTITION OF t DEFAULT", "p", "f"),
        ("CREATE DOMAIN d AS int; CREATE TABLE t (a d PRIMARY KEY); DROP DOMAIN d CASCADE", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY, b numeric[])", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t ADD b timestamptz[]", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY, b numeric)", "t", "f"),
        ("CREATE TABLE t (a int PRIMARY KEY, b numeric(38,9), c text, d jsonb, e bytea, f text[], g int[])", "t", "d"),
        ("CREATE UNLOGGED TABLE t (a int)", "t", "d"),
        ("CREATE TABLE s.t (a int)", "s.t", "d"),
        ("CREATE TEMP TABLE t (a int)", "t", "d"),
    ],
    ids=["no key", "key", "created from a query", "select into", "key dropped", "identity taken away", "deferrable key",
         "index kept, chosen", "index chosen beside a key", "index chosen beside one that is taken for the key",
         "index dropped", "moved in", "partitioned", "partition", "key's type dropped", HIDDEN,
         HIDDEN + ", added",
         "numbers without bound", "all kinds that it can mark", "unlogged", "not captured", "temporary"],
)  # fmt: skip
def test_identities(shop: psycopg.Connection, ddl: str, table: str, expected: str) -> None:
    shop.execute("CREATE SCHEMA s")
    shop.execute(ddl.encode())
    assert identity(shop, table) == expected


@pytest.mark.parametrize("table", ["older", "newer"], ids=["from before", "from now"])
def test_updates_are_never_refused(shop: psycopg.Connection, table: str) -> None:
    shop.execute("CREATE TABLE newer (a int); INSERT INTO newer VALUES (1)")
    assert shop.execute(f"UPDATE {table} SET a = 2".encode()).rowcount == 1
    assert shop.execute(f"DELETE FROM {table}".encode()).rowcount == 1


def test_in_the_transaction_that_makes_the_table(shop: psycopg.Connection) -> None:
    with shop.transaction():
        shop.execute(KEYLESS)
        assert shop.execute("UPDATE keyless SET a = 2").rowcount == 1


def test_repeatable_and_following_the_settings(server: Server, database: str, shop: psycopg.Connection) -> None:
    shop.execute("CREATE SCHEMA s; CREATE TABLE s.t (a int)")
    prepare(server, database)
    prepare(server, database, "public", "s")
    assert identity(shop, "s.t") == "f"
    schemas = "SELECT n.nspname FROM pg_publication_namespace p JOIN pg_namespace n ON n.oid = p.pnnspid ORDER BY 1"
    assert [row[0] for row in shop.execute(schemas)] == ["lakehouse", "public", "s"]
    prepare(server, database, "s")
    assert [row[0] for row in shop.execute(schemas)] == ["lakehouse", "s"]


def test_rights(server: Server, shop: psycopg.Connection) -> None:
    shop.execute("CREATE TABLE later (a int PRIMARY KEY); CREATE UNLOGGED TABLE apart (a int); CREATE SCHEMA s")
    found = shop.execute(
        "SELECT rolsuper, rolreplication, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = 'debezium'"
    ).fetchone()
    assert found == (False, True, False, False)
    can = "SELECT has_table_privilege('debezium', %s, %s)"
    rights = [("older", "SELECT"), ("later", "SELECT"), ("older", "UPDATE"), ("lakehouse.heartbeat", "UPDATE")]
    assert [shop.execute(can, right).fetchone() for right in rights] == [(True,), (True,), (False,), (True,)]
    assert shop.execute("UPDATE lakehouse.heartbeat SET beat_at = beat_at").rowcount == 1
    shop.execute("INSERT INTO lakehouse.signal (id, type) VALUES ('1', 'log')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        shop.execute("SELECT lakehouse.prepare_tables()")


def test_what_becomes_of_each_table(shop: psycopg.Connection) -> None:
    for ddl in (
        "CREATE TABLE keyed (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a + 1) STORED)",
        "CREATE TABLE by_index (a int NOT NULL UNIQUE)",
        "CREATE TABLE nullable_index (a int UNIQUE)",
        "CREATE TABLE partial_index (a int NOT NULL, b bool); CREATE UNIQUE INDEX ON partial_index (a) WHERE b",
        "CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY)",
        "CREATE TABLE parted (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE part PARTITION OF parted DEFAULT",
        "CREATE VIEW seen AS SELECT 1",
    ):
        shop.execute(ddl.encode())
    states = read_states(shop, ["public"])
    assert {s.table: classify(s, {}).mode for s in states if not s.is_partition} == {
        "older": Mode.WHOLE_ROWS,
        "keyed": Mode.KEYED,
        "by_index": Mode.KEYED,
        "nullable_index": Mode.LEFT_OUT,
        "partial_index": Mode.LEFT_OUT,
        "unlogged": Mode.LEFT_OUT,
        "parted": Mode.KEYED,
    }
    excluded = left_out("shop", states, [])
    assert excluded.tables == {"public.nullable_index", "public.partial_index", "public.unlogged"}
    unpublished = [replace(state, published=False) for state in states]
    assert left_out("shop", unpublished, []).tables == excluded.tables
    assert (excluded.partitions, excluded.generated) == ({"public.part"}, {"public.keyed.g"})


def test_without_key_and_identity_changes_are_refused_by_the_source_and_that_is_said(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as administrator:
        # As where a managed service allows none.
        administrator.execute("DROP EVENT TRIGGER lakehouse_capture")
        shop.execute(KEYLESS)
        administrator.execute("GRANT SELECT ON keyless TO debezium")
        for refused in ("UPDATE keyless SET a = 2", "DELETE FROM keyless"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
                shop.execute(refused.encode())
        found = next(classify(s, {}) for s in read_states(shop, ["public"]) if s.table == "keyless")
        assert found.mode is Mode.INSERTS_ONLY
        assert "ALTER TABLE public.keyless REPLICA IDENTITY FULL" in (found.reason or "")
        administrator.execute("SELECT lakehouse.prepare_tables()")
    assert shop.execute("UPDATE keyless SET a = 2").rowcount == 1


LOGGED = "SELECT table_name, columns::jsonb, reread FROM lakehouse.schema_changes ORDER BY id DESC LIMIT 1"


@pytest.mark.parametrize(
    ("ddl", "reread"),
    [
        ("ALTER TABLE t ADD b int DEFAULT 7", False),
        ("ALTER TABLE t ADD b timestamptz DEFAULT now()", False),
        ("ALTER TABLE t ADD b float8 DEFAULT random()", True),
        ("ALTER TABLE t ADD b int[] DEFAULT '{1}'", True),
        ("ALTER TABLE t ALTER n TYPE bigint", False),
        ("ALTER TABLE t ALTER n TYPE text", True),
        ("ALTER TABLE t ALTER c TYPE numeric(8,2)", False),
        ("ALTER TABLE t ALTER c TYPE numeric(8,3)", True),
        ("ALTER TABLE t RENAME n TO m", False),
        ("ALTER TABLE t ADD b int, ALTER b SET DEFAULT 5", False),
    ],
)
def test_a_change_of_columns_is_written_down(shop: psycopg.Connection, ddl: str, reread: bool) -> None:
    shop.execute("CREATE TABLE t (a int PRIMARY KEY, n int, c numeric(6,2)); INSERT INTO t VALUES (1, 2, 3)")
    signals = shop.execute("SELECT count(*) FROM lakehouse.signal").fetchone()
    shop.execute(ddl.encode())
    table, columns, again = shop.execute(LOGGED).fetchone() or ("", [], None)
    assert (table, again) == ("t", reread)
    actual = shop.execute("SELECT attname, attnum FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0")
    assert {(c["name"], c["attnum"]) for c in columns} == set(actual.fetchall())
    asked = shop.execute("SELECT count(*) FROM lakehouse.signal").fetchone()
    assert (asked != signals) is reread


def test_the_default_that_older_rows_show_is_written_down_once(shop: psycopg.Connection) -> None:
    shop.execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
    shop.execute("ALTER TABLE t ADD b timestamptz DEFAULT now()")
    _, columns, _ = shop.execute(LOGGED).fetchone() or ("", [], None)
    assert columns[1]["missing"].endswith("+00")
    assert shop.execute("SELECT b = %s::timestamptz FROM t", (columns[1]["missing"],)).fetchone() == (True,)
    before = shop.execute("SELECT max(id) FROM lakehouse.schema_changes").fetchone()
    shop.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    assert shop.execute("SELECT max(id) FROM lakehouse.schema_changes").fetchone() == before


def test_a_table_that_is_gone_has_no_columns(shop: psycopg.Connection) -> None:
    shop.execute("CREATE TABLE t (a int PRIMARY KEY)")
    shop.execute("DROP TABLE t")
    assert shop.execute(LOGGED).fetchone() == ("t", [], False)
