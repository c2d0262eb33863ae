"""The source's preparation, in a PostgreSQL of the tests' own. No capture runs: PostgreSQL itself refuses updates of
published tables that lack an identity.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from pipelines.sources.base.capture import ConnectorOptions, Mode, Remedy
from pipelines.sources.base.database import SourceAddress
from pipelines.sources.base.errors import SourceLocked
from pipelines.sources.postgres import administrator, published
from pipelines.sources.postgres.administrator import PostgresAdministrator
from pipelines.sources.postgres.capture import prepare_sql
from pipelines.sources.postgres.capture_tables import classify, left_out, read_states
from pipelines.sources.postgres.connection import connect
from pipelines.sources.postgres.database import PostgresDatabase
from tests.integration.postgres import Server

KEYLESS = "CREATE TABLE keyless (a int); INSERT INTO keyless VALUES (1)"
OPTIONS = ConnectorOptions("shop", SecretStr("secret"), "http://registry", "__unavailable", 1)
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


def admin_address(server: Server, database: str) -> SourceAddress:
    return SourceAddress(
        name="shop", schemas=("public",), host="127.0.0.1", port=server.port, database=database, user="postgres",
        password=SecretStr(server.admin_password), application="test",
    )  # fmt: skip


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
        "CREATE TABLE columnless (); CREATE TABLE bared (a int); ALTER TABLE bared DROP COLUMN a",
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
        "columnless": Mode.LEFT_OUT,
        "bared": Mode.LEFT_OUT,
        "parted": Mode.KEYED,
    }
    excluded = left_out("shop", states, [])
    without = {"public.nullable_index", "public.partial_index", "public.unlogged", "public.columnless", "public.bared"}
    assert excluded.tables == without
    unpublished = [replace(state, published=False) for state in states]
    assert left_out("shop", unpublished, []).tables == excluded.tables
    assert (excluded.partitions, excluded.generated) == ({"public.part"}, {"public.keyed.g"})


def test_without_key_and_identity_changes_are_refused_by_the_source_and_that_is_said(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        # As where a managed service allows none.
        superuser.execute("DROP EVENT TRIGGER lakehouse_capture")
        shop.execute(KEYLESS)
        superuser.execute("GRANT SELECT ON keyless TO debezium")
        for refused in ("UPDATE keyless SET a = 2", "DELETE FROM keyless"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
                shop.execute(refused.encode())
        found = next(classify(s, {}) for s in read_states(shop, ["public"]) if s.table == "keyless")
        assert found.mode is Mode.INSERTS_ONLY
        assert "ALTER TABLE public.keyless REPLICA IDENTITY FULL" in (found.reason or "")
        superuser.execute("SELECT lakehouse.prepare_tables()")
    assert shop.execute("UPDATE keyless SET a = 2").rowcount == 1


LOGGED = "SELECT table_name, columns::jsonb, reread FROM lakehouse.schema_changes ORDER BY id DESC LIMIT 1"
ASKED = "SELECT table_name, how, why FROM lakehouse.rereads ORDER BY id"
SIGNALS = "SELECT count(*)::int FROM lakehouse.signal"


def _number(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("ddl", "reread"),
    [
        ("ALTER TABLE t ADD b int DEFAULT 7", False),
        ("ALTER TABLE t ADD b timestamptz DEFAULT now()", False),
        ("ALTER TABLE t ADD b float8 DEFAULT random()", True),
        ("ALTER TABLE t ADD b int[] DEFAULT '{1}'", True),
        ("ALTER TABLE t ALTER n TYPE bigint", False),
        ("ALTER TABLE t ALTER n TYPE bigint USING n * 100", True),
        ("DO 'BEGIN ALTER TABLE t ALTER n TYPE bigint; END'", True),
        ("ALTER TABLE t ALTER n TYPE text", True),
        ("ALTER TABLE t ALTER c TYPE numeric(8,2)", False),
        ("ALTER TABLE t ALTER c TYPE numeric(8,3)", True),
        ("ALTER TABLE t ALTER c TYPE numeric", True),
        ("ALTER TABLE t ALTER c TYPE numeric(40,2)", True),
        ("SET timezone = 'UTC'; ALTER TABLE t ALTER d TYPE timestamptz", True),
        ("ALTER TABLE t ALTER d TYPE timestamp(6)", False),
        ("ALTER TABLE t ALTER v TYPE text", False),
        ("ALTER TABLE t ALTER v TYPE varchar(90)", False),
        ("ALTER TABLE t RENAME n TO m", False),
        ("ALTER TABLE t ADD b int, ALTER b SET DEFAULT 5", False),
    ],
)
def test_a_change_of_columns_is_written_down(shop: psycopg.Connection, ddl: str, reread: bool) -> None:
    shop.execute(
        "CREATE TABLE t (a int PRIMARY KEY, n int, c numeric(6,2), d timestamp(3), v varchar(9));"
        "INSERT INTO t VALUES (1, 2, 3, now(), 'v')"
    )
    signals = _number(shop, SIGNALS)
    shop.execute(ddl.encode())
    table, columns, again = shop.execute(LOGGED).fetchone() or ("", [], None)
    assert (table, again) == ("t", reread)
    actual = shop.execute("SELECT attname, attnum FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0")
    assert {(c["name"], c["attnum"]) for c in columns} == set(actual.fetchall())
    assert (_number(shop, SIGNALS) != signals) is reread


TABLES = """
CREATE SCHEMA archive;
CREATE TYPE state AS ENUM ('new', 'in_prgs');
CREATE TYPE spot AS (x int, y int);
CREATE DOMAIN states AS state[];
CREATE TABLE t (id int PRIMARY KEY, cents int, s state, all_s states, p spot, g int GENERATED ALWAYS AS (id) STORED);
CREATE TABLE keyless (cents int);
CREATE TABLE parts (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (1) TO (100);
CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (100) TO (200);
CREATE TABLE archive.filled (id int PRIMARY KEY, v int);
CREATE TABLE archive.whole AS SELECT 1 AS a;
INSERT INTO t VALUES (1, 2, 'new', '{new}', '(1,2)');
INSERT INTO keyless VALUES (1);
INSERT INTO parts VALUES (1, 1);
INSERT INTO archive.filled VALUES (201, 1)
"""
NEW_TYPE, ANEW = "a type of its columns was changed", "its rows were computed anew"
CAME, BACK = "it has come with its rows", "it is captured again"
UNKNOWN = "its entry in the catalog, or its files, changed for no known reason"
# What is done, and which tables are read again, and how.
UNTOLD: dict[str, tuple[str, set[tuple[str, str, str]]]] = {
    "a type that it had": ("ALTER TABLE t ALTER cents TYPE int USING cents * 100", {("t", "rows", ANEW)}),
    "a type that it had, without a key":
        ("ALTER TABLE keyless ALTER cents TYPE int USING cents * 100", {("keyless", "table", ANEW)}),
    "a partitioned table's type":
        ("ALTER TABLE parts ALTER v TYPE text USING 'n' || v", {("parts", "rows", "its columns were changed")}),
    "a partitioned table's type that it had":
        ("ALTER TABLE parts ALTER v TYPE int USING v * 100", {("parts", "rows", ANEW)}),
    "a partitioned table's volatile default":
        ("ALTER TABLE parts ADD r float8 DEFAULT random()", {("parts", "rows", "its columns were changed")}),
    "generated no longer":
        ("ALTER TABLE t ALTER g DROP EXPRESSION", {("t", "rows", "its columns were changed")}),
    "a partitioned table's default": ("ALTER TABLE parts ADD tier int NOT NULL DEFAULT 7", set()),
    "unlogged for a while":
        ("ALTER TABLE t SET UNLOGGED; DELETE FROM t; INSERT INTO t VALUES (2); ALTER TABLE t SET LOGGED",
         {("t", "table", BACK)}),
    "away for a while":
        ("ALTER TABLE t SET SCHEMA archive; ALTER TABLE archive.t SET SCHEMA public", {("t", "table", BACK)}),
    "renamed": ("ALTER TABLE t RENAME TO u", {("u", "rows", CAME)}),
    "renamed without a key": ("ALTER TABLE keyless RENAME TO u", {("u", "table", CAME)}),
    "moved in": ("ALTER TABLE archive.filled SET SCHEMA public", {("filled", "rows", CAME)}),
    "moved in without a key": ("ALTER TABLE archive.whole SET SCHEMA public", {("whole", "table", CAME)}),
    "a label renamed": ("ALTER TYPE state RENAME VALUE 'in_prgs' TO 'in_progress'", {("t", "rows", f"{NEW_TYPE}")}),
    "a label added": ("ALTER TYPE state ADD VALUE 'done'", set()),
    "an attribute added": ("ALTER TYPE spot ADD ATTRIBUTE z int", {("t", "rows", NEW_TYPE)}),
    "an attribute dropped": ("ALTER TYPE spot DROP ATTRIBUTE y", {("t", "rows", NEW_TYPE)}),
    # A statement about one table that changes another's values, which holds no lock on it: a look finds it.
    "a table's row type":
        ("CREATE TABLE kept (id int PRIMARY KEY, was keyless); INSERT INTO kept VALUES (1, ROW(1));"
         " ALTER TABLE keyless ADD extra int", {("kept", "rows", NEW_TYPE)}),
    "an attribute renamed": ("ALTER TYPE spot RENAME ATTRIBUTE y TO z", set()),
    "a domain's check": ("ALTER DOMAIN states ADD CHECK (cardinality(VALUE) < 9)", set()),
    # A column has another declared type then, of which it isn't known that its values read the same.
    "a domain renamed":
        ("ALTER DOMAIN states RENAME TO situations", {("t", "rows", "its columns were changed")}),
    "a domain's default": ("ALTER DOMAIN states SET DEFAULT '{new}'", set()),
    "a restore":
        ("ALTER TABLE t DISABLE TRIGGER ALL; INSERT INTO t VALUES (9); ALTER TABLE t ENABLE TRIGGER ALL", set()),
    "a filled partition": ("ALTER TABLE parts ATTACH PARTITION archive.filled FOR VALUES FROM (200) TO (300)",
                           {("parts", "rows", "a partition has come with its rows")}),
    "an empty partition": ("CREATE TABLE part_3 PARTITION OF parts FOR VALUES FROM (300) TO (400)", set()),
    "a filled partition detached":
        ("ALTER TABLE parts DETACH PARTITION part_1",
         {("part_1", "rows", CAME), ("parts", "table", "a partition is gone")}),
    "an empty partition detached": ("ALTER TABLE parts DETACH PARTITION part_2", set()),
    "a partition dropped": ("DROP TABLE part_1", {("parts", "table", "a partition is gone")}),
    "built anew":
        ("BEGIN; CREATE TABLE n AS SELECT * FROM t; ALTER TABLE n ADD PRIMARY KEY (id); DROP TABLE t;"
         " ALTER TABLE n RENAME TO t; COMMIT", {("t", "rows", CAME)}),
    "built anew without a key":
        ("BEGIN; CREATE TABLE n AS SELECT * FROM keyless; DROP TABLE keyless; ALTER TABLE n RENAME TO keyless; COMMIT",
         {("keyless", "table", CAME)}),
    "made from a query": ("CREATE TABLE n AS SELECT * FROM t", set()),
    "other files": ("ALTER TABLE t SET TABLESPACE pg_default; ALTER TABLE t SET (fillfactor = 50)", set()),
}  # fmt: skip


@pytest.mark.parametrize(("statements", "asked"), UNTOLD.values(), ids=UNTOLD.keys())
def test_what_no_event_tells_is_read_again(
    server: Server, database: str, shop: psycopg.Connection, statements: str, asked: set[tuple[str, str, str]]
) -> None:
    """In a session that replays what another one did (pg_restore, a replica), too: it fires no ordinary trigger."""
    shop.execute(TABLES)
    assert shop.execute(ASKED).fetchall() == []
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as session:
        session.execute("SET session_replication_role = replica")
        session.execute(statements.encode())
        session.execute("SELECT lakehouse.log_schemas()")
    assert set(shop.execute(ASKED)) == asked


def test_what_was_excluded_is_read_again_once_it_is_included(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    shop.execute(TABLES)
    newest = "SELECT columns::jsonb FROM lakehouse.schema_changes WHERE table_name = 't' ORDER BY id DESC LIMIT 1"

    def look(session: psycopg.Connection) -> set[tuple[str, str, str]]:
        session.execute("SELECT lakehouse.log_schemas()")
        return set(shop.execute(ASKED))

    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as session:
        for column in ("cents", ""):
            shop.execute("INSERT INTO lakehouse.exclusions VALUES ('public', 't', %s, 'too large')", (column,))
            assert look(session) == set()
        assert shop.execute(newest).fetchone() == ([],)
        shop.execute("DELETE FROM lakehouse.exclusions WHERE column_name = ''")
        assert look(session) == {("t", "table", BACK)}
        columns = (shop.execute(newest).fetchone() or ([],))[0]
        assert {column["name"] for column in columns if column["generated"]} == {"cents", "g"}
        shop.execute("DELETE FROM lakehouse.exclusions")
        assert look(session) == {("t", "table", BACK), ("t", "rows", "its columns were changed")}


BY_A_LOOK = {
    **{name: UNTOLD[name][1] for name in UNTOLD},
    "a type that it had": {("t", "verify", UNKNOWN)},
    "a type that it had, without a key": {("keyless", "verify", UNKNOWN)},
    "a partitioned table's type that it had": {("parts", "verify", UNKNOWN)},
    "unlogged for a while": {("t", "verify", UNKNOWN)},
    "away for a while": {("t", "verify", UNKNOWN)},
    "a table's row type": {("kept", "rows", CAME)},
    "a filled partition detached": {("part_1", "rows", CAME), ("parts", "table", "a partition is gone")},
    "made from a query": {("n", "table", CAME)},
    "an empty partition": {("parts", "verify", UNKNOWN)},
    "an empty partition detached": {("parts", "verify", UNKNOWN)},
    "other files": {("t", "verify", UNKNOWN)},
}


@pytest.mark.parametrize("name", BY_A_LOOK, ids=BY_A_LOOK.keys())
def test_what_no_trigger_sees_is_found_by_a_look(
    server: Server, database: str, shop: psycopg.Connection, name: str
) -> None:
    """Where it can't be known what was done, the table is verified."""
    shop.execute(TABLES)
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as session:
        session.execute("SET event_triggers = off")
        session.execute(UNTOLD[name][0].encode())
        session.execute("SET event_triggers = on")
        assert shop.execute(ASKED).fetchall() == []
        session.execute("SELECT lakehouse.log_schemas()")
        found = set(shop.execute(ASKED))
        session.execute("SELECT lakehouse.log_schemas()")
    assert found == BY_A_LOOK[name]
    assert set(shop.execute(ASKED)) == found


def unsettled(connection: psycopg.Connection) -> list[str]:
    """The tables of which something isn't written down, as capture's functions see them."""
    connection.execute("SET search_path = pg_catalog; SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'")
    return [row[0] for row in connection.execute("SELECT table_name FROM lakehouse.compared WHERE NOT settled")]


# A statement whose transaction is still open, and one of another session that has nothing to do with it.
APART = {
    "two tables": ("ALTER TABLE t ADD a int DEFAULT 1", "ALTER TABLE keyless ADD b int"),
    "a table with a default": ("ALTER TABLE priced ADD a int", "ALTER TABLE keyless ADD b int"),
    "a partition": ("ALTER TABLE part_1 ADD CHECK (v < 9)", "ALTER TABLE keyless ADD b int"),
    "rows computed anew": ("ALTER TABLE priced ALTER n TYPE text", "ALTER TABLE t ALTER cents TYPE text"),
    "a type and its table": ("ALTER TYPE state RENAME VALUE 'in_prgs' TO 'x'", "ALTER TABLE t ADD b int"),
    "a composite type and its table": ("ALTER TYPE spot ADD ATTRIBUTE z int", "ALTER TABLE t ADD b int"),
    "a table that is gone": ("DROP TABLE priced", "ALTER TABLE keyless ADD b int"),
    "a new table": ("CREATE TABLE n (a int)", "CREATE TABLE m (a int)"),
    "what neither has to do with": ("ALTER TABLE t ADD a int", "ALTER TABLE priced ADD b int"),
    "a table that isn't safe yet": ("LOCK TABLE unsafe IN ROW EXCLUSIVE MODE", "ALTER TABLE t ADD b int"),
    "a look": ("SELECT lakehouse.log_schemas()", "ALTER TABLE priced ADD b int"),
    "a table and a look": ("ALTER TABLE priced ADD a int", "SELECT lakehouse.log_schemas()"),
    "a type and a look": ("ALTER TYPE state RENAME VALUE 'in_prgs' TO 'x'", "SELECT lakehouse.log_schemas()"),
    "a table without a key and a look": ("ALTER TABLE keyless ADD a int", "SELECT lakehouse.prepare_tables()"),
}  # fmt: skip


@pytest.mark.parametrize(("held", "other"), APART.values(), ids=APART.keys())
def test_changes_that_have_nothing_to_do_with_each_other_dont_wait_for_each_other(
    server: Server, database: str, shop: psycopg.Connection, held: str, other: str
) -> None:
    """Two that wait for each other in turn would be a deadlock that the source didn't have without capture."""
    shop.execute(TABLES + "; CREATE TABLE priced (id int PRIMARY KEY, n int DEFAULT 1); CREATE TABLE elsewhere (a int)")
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        superuser.execute("SET event_triggers = off; GRANT SELECT ON elsewhere TO PUBLIC; CREATE TABLE unsafe (a int)")
        with psycopg.connect(server.dsn(database, "postgres")) as holder:
            holder.execute(held.encode())
            superuser.execute("SET event_triggers = on; SET lock_timeout = '3s'")
            superuser.execute(other.encode())
        superuser.execute("SELECT lakehouse.prepare_tables()")
        superuser.execute("SELECT lakehouse.log_schemas()")
        assert unsettled(superuser) == []
    assert identity(shop, "unsafe") == "f"


def test_many_sessions_change_tables_of_their_own_while_capture_looks(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    """Each takes its locks in an order of its own, and would be ended if capture's were in a circle with them."""
    for n in range(6):
        shop.execute(
            f"CREATE TYPE kind_{n} AS ENUM ('a'); CREATE TABLE one_{n} (a int DEFAULT 1, k kind_{n});"
            f" CREATE TABLE two_{n} (a int PRIMARY KEY, k kind_{n}) PARTITION BY RANGE (a);"
            f" CREATE TABLE part_{n} PARTITION OF two_{n} DEFAULT; INSERT INTO one_{n} VALUES (1, 'a')".encode()
        )
    capture = PostgresAdministrator(admin_address(server, database), OPTIONS)
    changed = threading.Event()

    def change(n: int) -> int:
        with psycopg.connect(server.dsn(database), autocommit=True) as session:
            for turn in range(8):
                statements = [
                    f"ALTER TYPE kind_{n} ADD VALUE 'v{turn}'", f"ALTER TABLE one_{n} ADD c{turn} int DEFAULT {turn}",
                    f"ALTER TABLE two_{n} ADD c{turn} float8 DEFAULT random()",
                    f"ALTER TABLE part_{n} SET (fillfactor = 50)", f"CREATE TABLE more_{n}_{turn} (a int)",
                    f"DROP TABLE more_{n}_{turn}",
                ]  # fmt: skip
                at = (turn + n) % 4
                with session.transaction():
                    for statement in [*statements[at:4], *statements[:at], *statements[4:]]:
                        session.execute(statement.encode())
        return turn + 1

    def look() -> int:
        looks = 0
        while not changed.is_set():
            capture.keep_ready()
            looks += 1
        return looks

    with ThreadPoolExecutor(7) as pool:
        looked = pool.submit(look)
        try:
            assert list(pool.map(change, range(6))) == [8] * 6
        finally:
            changed.set()
        assert looked.result() > 0
    capture.keep_ready()
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        assert unsettled(superuser) == []
        ended = superuser.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert ended == (0,)


def test_who_looks_at_the_source_waits_for_nobody(server: Server, database: str, shop: psycopg.Connection) -> None:
    shop.execute(TABLES)
    address = replace(admin_address(server, database), schemas=("archive", "public"))
    shown = ["public.keyless", "public.older", "public.parts", "public.t"]
    with psycopg.connect(server.dsn(database, "postgres")) as migration:
        migration.execute("LOCK TABLE t, parts, part_1, keyless, archive.filled IN ACCESS EXCLUSIVE MODE")
        with PostgresDatabase(address).connect() as session:
            assert [table.full_name for table in session.tables()] == shown
            assert session.uncaptured_tables() == ["archive.filled", "archive.whole"]
            assert [table.name for table in session.captures()] == ["archive.filled", "archive.whole", *shown]
            files = {table.full_name: session.storage(table) for table in session.tables()}
            assert files["public.parts"].count(",") == 2
            assert PostgresAdministrator(address, OPTIONS).keep_ready().mended == 0


def test_who_reads_the_source_goes_behind_who_changes_it(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    """In a circle, the change would be ended: it looks for one later than a reader that has waited for long."""
    shop.execute(TABLES)
    with PostgresDatabase(admin_address(server, database)).connect() as session:
        tables = {table.name: table for table in session.tables()}
        session.hold_snapshot()
        assert session.count_rows(tables["t"]) == 1
        with psycopg.connect(server.dsn(database, "postgres")) as migration:
            migration.execute("ALTER TABLE parts ADD note text")
            with pytest.raises(SourceLocked), session.transaction():
                session.count_rows(tables["parts"])
            assert session.count_rows(tables["t"]) == 1
        session.release_snapshot()
        assert session.count_rows(tables["parts"]) == 1


@pytest.mark.parametrize(
    "made",
    [
        "FOR ALL TABLES WITH (publish_via_partition_root)",
        "FOR TABLES IN SCHEMA public WITH (publish_via_partition_root)",
        "FOR TABLES IN SCHEMA public",
        "FOR TABLE parts, older",
        "FOR TABLE parts WITH (publish_via_partition_root)",
        "FOR TABLE part_1 WITH (publish_via_partition_root)",
        "FOR TABLE parts, part_1 WITH (publish_via_partition_root)",
        "FOR TABLE older (a)",
    ],
)
def test_what_a_publication_carries_is_what_postgresql_says(
    server: Server, database: str, shop: psycopg.Connection, made: str
) -> None:
    shop.execute(
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE SCHEMA archive;"
        "CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (1) TO (9);"
        "CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (9) TO (99) PARTITION BY RANGE (id);"
        "CREATE TABLE archive.part_3 PARTITION OF part_2 DEFAULT; CREATE TABLE archive.apart (a int PRIMARY KEY);"
        "CREATE UNLOGGED TABLE lost (a int); CREATE TABLE child () INHERITS (older); DROP TABLE child"
    )
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        superuser.execute(f"CREATE PUBLICATION p {made}".encode())
        found = published.captured_tables(superuser, "p", ("public", "archive"))
        told = superuser.execute(
            "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = 'p'"
            " AND schemaname IN ('public', 'archive')"
        ).fetchall()
    assert told
    assert {table.full_name for table in found} == {name for (name,) in told}


def test_a_look_leaves_a_table_that_is_being_changed_and_sees_the_others(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    shop.execute(TABLES)
    look = "SELECT lakehouse.log_schemas()"
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        superuser.execute("SET event_triggers = off; GRANT SELECT ON t, keyless TO PUBLIC; SET lock_timeout = '3s'")
        with shop.transaction():
            shop.execute("ALTER TABLE t ADD b int")
            superuser.execute(look.encode())
            assert {row[0] for row in superuser.execute(ASKED)} == {"keyless"}
        superuser.execute(look.encode())
        assert superuser.execute(look.encode()).fetchone() == (0,)
        newest = superuser.execute(
            "SELECT columns::jsonb FROM lakehouse.schema_changes WHERE table_name = 't' ORDER BY id DESC LIMIT 1"
        ).fetchone()
    assert newest is not None
    assert "b" in {column["name"] for column in newest[0]}


def test_preparing_gives_up_on_a_table_that_stays_locked(
    server: Server, database: str, shop: psycopg.Connection
) -> None:
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        superuser.execute("SET event_triggers = off; CREATE TABLE unsafe (a int); CREATE TABLE calm (a int)")
    with psycopg.connect(server.dsn(database, "postgres")) as writer:
        writer.execute("INSERT INTO unsafe VALUES (1)")
        with pytest.raises(psycopg.errors.LockNotAvailable, match=r"public\.unsafe stays locked"):
            prepare(server, database)
        found = PostgresAdministrator(admin_address(server, database), OPTIONS).keep_ready()
        assert found.mended == 1
        assert (identity(shop, "calm"), identity(shop, "unsafe")) == ("f", "d")
    prepare(server, database)
    assert identity(shop, "unsafe") == "f"


def test_what_was_seen_by_an_earlier_release_is_known(server: Server, database: str, shop: psycopg.Connection) -> None:
    shop.execute(TABLES)
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        superuser.execute(
            "SELECT lakehouse.log_schemas(); SET event_triggers = off; DROP INDEX lakehouse.seen_by_relation"
        )
        superuser.execute("ALTER TABLE lakehouse.seen DROP COLUMN id CASCADE, ADD PRIMARY KEY (relation)")
    prepare(server, database)
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as superuser:
        assert unsettled(superuser) == []
    shop.execute("ALTER TYPE state RENAME VALUE 'in_prgs' TO 'x'")
    assert set(shop.execute(ASKED)) == {("t", "rows", NEW_TYPE)}


def test_a_look_after_the_tables_takes_one_connection(
    server: Server, database: str, shop: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute(TABLES)
    with psycopg.connect(server.dsn(database, "postgres"), autocommit=True) as session:
        session.execute("SET event_triggers = off; CREATE TABLE unseen (a int)")
        session.execute(UNTOLD["a type that it had"][0].encode())
    opened: list[SourceAddress] = []
    monkeypatch.setattr(administrator, "connect", lambda address: opened.append(address) or connect(address))
    found = PostgresAdministrator(admin_address(server, database), OPTIONS).keep_ready()
    assert len(opened) == 1
    assert found.mended == 1
    assert [(reread.table, reread.how) for reread in found.rereads] == [("public.t", Remedy.VERIFY)]
    assert found.left_out.tables == frozenset()


def test_what_partitions_show_in_older_rows_is_written_down(shop: psycopg.Connection) -> None:
    shop.execute(TABLES)
    shop.execute("ALTER TABLE parts ADD tier int NOT NULL DEFAULT 7")
    _, columns, _ = shop.execute(LOGGED).fetchone() or ("", [], None)
    assert [c["missing"] for c in columns] == [None, None, "7"]


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


SETTINGS = {
    "bytea_output": "escape", "datestyle": "German, DMY", "intervalstyle": "iso_8601", "timezone": "Asia/Tokyo",
    "extra_float_digits": "-9", "xmloption": "document", "search_path": "nowhere", "statement_timeout": "1s",
    "idle_in_transaction_session_timeout": "1s", "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
}  # fmt: skip
PRINTED = "SELECT '\\x00ff'::bytea::text, '2026-03-04'::date::text, '26 hours'::interval::text, 0.1::float8::text"


def test_what_the_database_sets_for_everybody_is_not_ours(server: Server, database: str) -> None:
    with psycopg.connect(server.dsn("postgres", "postgres"), autocommit=True) as superuser:
        for name, value in SETTINGS.items():
            set_it = sql.SQL("ALTER DATABASE {} SET {} = {}")
            superuser.execute(set_it.format(sql.Identifier(database), sql.Identifier(name), sql.Literal(value)))
    with connect(admin_address(server, database)) as ours:
        ours.execute(prepare_sql(["public"], password="secret", owner="shop").encode())
        ours.execute("CREATE TABLE public.t (a int); INSERT INTO public.t VALUES (1)")
        assert ours.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    dsn = make_conninfo(server.dsn(database), user="debezium", password="secret")
    with psycopg.connect(dsn, autocommit=True) as reader:
        assert reader.execute(PRINTED.encode()).fetchone() == ("\\x00ff", "2026-03-04", "26:00:00", "0.1")
        shown = {name: (reader.execute(f"SHOW {name}".encode()).fetchone() or ("",))[0] for name in SETTINGS}
    assert {name for name, value in SETTINGS.items() if shown[name] == value} == set()
