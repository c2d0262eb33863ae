"""The workload against a PostgreSQL of the tests' own."""

import threading

import psycopg
import pytest
from psycopg import sql

from services.shop import database, workload
from services.shop.load import load
from services.shop.summary import Progress
from tests.integration.postgres import Server


def stocked(server: Server, name: str, scale: float = 0.01) -> str:
    dsn = server.dsn(server.new_database(name))
    with psycopg.connect(dsn, autocommit=True) as connection:
        database.setup(connection)
        database.setup(connection)
    load(dsn, scale, seed=5)
    return dsn


def contents(dsn: str) -> dict[str, str]:
    query = "SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM {} t"
    with psycopg.connect(dsn) as connection:
        rows = {t: connection.execute(sql.SQL(query).format(sql.Identifier(t))).fetchone() for t in database.TABLES}
    return {table: row[0] for table, row in rows.items() if row}


def test_same_seed_same_contents_whatever_the_threads_do(server: Server) -> None:
    found = []
    for name, rate in (("one", 4000), ("two", 400)):
        dsn = stocked(server, name)
        first = workload.run(dsn, rate, 800 / rate, connections=3, seed=9)
        second = workload.run(dsn, rate, 400 / rate, connections=2, seed=9)
        assert (first.complete, first.transactions, first.run) == (True, 800, 2)
        assert (second.complete, second.transactions, second.run) == (True, 400, 3)
        found.append((contents(dsn), first.changes, second.changes, first.kinds))
    assert found[0] == found[1]
    assert found[0][1] != found[0][2]


def test_row_changes_are_what_the_tables_show(server: Server) -> None:
    dsn = stocked(server, "counted")
    before = {table: int(text.split()[0]) for table, text in contents(dsn).items()}
    changes = workload.run(dsn, 1000, 1, seed=2).changes
    after = {table: int(text.split()[0]) for table, text in contents(dsn).items()}
    for table in database.TABLES:
        grown = changes.get(table, {}).get("insert", 0) - changes.get(table, {}).get("delete", 0)
        assert after[table] - before[table] == grown, table


def test_it_keeps_its_rate_and_reports(server: Server) -> None:
    seen: list[Progress] = []
    summary = workload.run(stocked(server, "paced"), 50, 2, connections=2, on_progress=seen.append)
    assert summary.transactions == 100
    assert 1.9 < summary.seconds < 4
    assert seen
    assert seen[-1].planned == 100


def test_a_schema_that_is_there_is_not_locked(server: Server) -> None:
    dsn = stocked(server, "busy")
    with psycopg.connect(dsn) as writer, psycopg.connect(dsn, autocommit=True) as connection:
        writer.execute("UPDATE orders SET note = note")
        connection.execute("SET lock_timeout = '1s'")
        database.setup(connection)


def test_a_deadlock_is_tried_again(server: Server) -> None:
    dsn = stocked(server, "entangled")
    with psycopg.connect(dsn, autocommit=True) as connection:
        # Every tenth order is refused the first time; a sequence remembers, as it isn't rolled back.
        connection.execute("CREATE SEQUENCE tries")
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('tries') % 10 = 0 THEN RAISE SQLSTATE '40P01'; END IF; RETURN NEW; END $$"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()")
    before = int(contents(dsn)["orders"].split()[0])
    summary = workload.run(dsn, 1000, 0.3, connections=2, seed=3)
    assert (summary.complete, summary.transactions) == (True, 300)
    placed = summary.changes["orders"]["insert"] - summary.changes["orders"].get("delete", 0)
    assert placed > 10
    assert int(contents(dsn)["orders"].split()[0]) - before == placed


def test_it_stops_when_told(server: Server) -> None:
    stop = threading.Event()
    summary = workload.run(stocked(server, "stopped"), 50, None, on_progress=lambda _: stop.set(), stop=stop)
    assert summary.complete
    assert 0 < summary.transactions < 200


def test_an_error_ends_all_connections(server: Server) -> None:
    dsn = stocked(server, "broken")

    def break_it(_: Progress) -> None:
        # One lock, asked for by a session that holds none: no deadlock with the workload.
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER TABLE usage_events RENAME TO gone")

    with pytest.raises(psycopg.errors.UndefinedTable):
        workload.run(dsn, 200, None, on_progress=break_it)


def test_reset_begins_anew(server: Server) -> None:
    dsn = stocked(server, "anew")
    before = contents(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        database.reset(connection)
        assert database.is_empty(connection)
    load(dsn, 0.01, seed=5)
    assert contents(dsn) == before
