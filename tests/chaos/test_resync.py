"""Sources that misbehave: each trouble is told, nothing is skipped in silence, and `lakehouse resync` repairs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyiceberg.expressions import EqualTo

from pipelines.kafka.client import LATEST, list_offsets
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


def held(stack: Stack) -> dict[str, str]:
    return dict(stack.lakehouse("table", "list")["held"])


def capture(stack: Stack) -> dict[str, Any]:
    return dict(stack.report()["capture"])


@contextmanager
def administrator(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    password = stack.setting("SOURCE_DB_ADMIN_PASSWORD")
    with psycopg.connect(
        stack.endpoints["source_dsn"], user="postgres", password=password, autocommit=True
    ) as connection:
        yield connection


@pytest.fixture(scope="module", autouse=True)
def shop(stack: Stack) -> None:
    """What the workload works with."""
    with stack.source() as source:
        found = source.execute("SELECT EXISTS (SELECT FROM customers)").fetchone()
    if found == (False,):
        stack.run_shop("load", "--scale", "0.01")


def test_lost_inserts_updates_and_deletes_of_a_table_are_made_good(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE lossy (id bigint PRIMARY KEY, note text)",
        "INSERT INTO lossy SELECT g, 'note ' || g FROM generate_series(1, 9000) g",
    )
    stack.assert_equal("lossy")
    # As if events had been lost: an insert, and the deletes of two rows.
    table = stack.catalog().load_table("shop.lossy")
    ghosts = table.scan(row_filter="id <= 2").to_arrow()
    table.delete(EqualTo("id", 7))
    ids = ghosts.schema.get_field_index("id")
    table.append(ghosts.set_column(ids, ghosts.schema.field(ids), [[90_001, 90_002]]))
    broken = stack.lakehouse("verify", "lossy", ok=(1,))["tables"][0]
    assert (broken["missing"], broken["extra"]) == (1, 2)
    assert stack.lakehouse("resync", "lossy", "--dry-run")["tables"] == ["public.lossy"]
    with stack.workload(rate=5, seed=70):
        done = stack.lakehouse("resync", "lossy")["tables"]
    assert done == [{"table": "public.lossy", "read": 9000, "removed": 2, "letters": 0}]
    stack.assert_equal("lossy")


def test_offsets_lost_to_retention_and_partitions_added_hold_a_table_until_it_is_resynced(stack: Stack) -> None:
    for name in ("outrun", "spread"):
        stack.sql(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, note text)",
            f"INSERT INTO {name} SELECT g, 'first' FROM generate_series(1, 200) g",
        )
    stack.assert_equal("outrun", "spread")
    first = stack.catalog().load_table("shop.outrun").metadata.current_snapshot_id
    stack.sql("UPDATE outrun SET note = 'second'", "DELETE FROM outrun WHERE id > 150")
    stack.lakehouse("wait")
    admin = AdminClient({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]})
    topic = "shop.public.outrun"
    ends = list_offsets(admin, [(topic, partition) for partition in range(3)], LATEST)
    for future in admin.delete_records([TopicPartition(*key, end) for key, end in ends.items()]).values():
        future.result()
    stack.catalog().load_table("shop.outrun").manage_snapshots().rollback_to_snapshot(first).commit()
    admin.create_partitions([NewPartitions("shop.public.spread", 5)])["shop.public.spread"].result()
    stack.sql("INSERT INTO outrun VALUES (1000, 'new')", "UPDATE spread SET note = 'moved' WHERE id <= 100")
    wait_until(lambda: held(stack).keys() >= {topic, "shop.public.spread"})
    assert "`lakehouse resync public.outrun` (infra/runbooks/offsets-lost.md)" in held(stack)[topic]
    assert "3 before, 5 now" in held(stack)["shop.public.spread"]
    for page, name in (("offsets-lost", "outrun"), ("partitions-added", "spread")):
        test = "test_offsets_lost_to_retention_and_partitions_added_hold_a_table_until_it_is_resynced"
        follow(stack, RUNBOOKS / f"{page}.md", f"tests/chaos/test_resync.py::{test}", TABLE=name)
    stack.sql("UPDATE spread SET note = 'on' WHERE id > 50", "DELETE FROM spread WHERE id % 9 = 0")
    stack.assert_equal("outrun", "spread")
    ledgers = {table["topic"]: table for table in stack.lakehouse("verify", "--ledger", "outrun", "spread")["tables"]}
    assert ledgers[topic]["lost"] > 0
    assert ledgers["shop.public.spread"]["lost"] == 0
    assert held(stack) == {}


def test_an_idle_database_beside_a_busy_one_holds_no_log_back(stack: Stack) -> None:
    with administrator(stack) as source:
        source.execute("CREATE DATABASE busy")
        with psycopg.connect(source.info.dsn, dbname="busy", password=source.info.password, autocommit=True) as busy:
            busy.execute("CREATE TABLE noise AS SELECT repeat(md5(g::text), 30) FROM generate_series(1, 60000) g")
        written = source.execute("SELECT pg_current_wal_lsn()").fetchone()
        behind = "SELECT restart_lsn < %s FROM pg_replication_slots WHERE slot_name = 'lakehouse'"
        wait_until(lambda: source.execute(behind, written).fetchone() == (False,), 120)
        source.execute("DROP DATABASE busy")


def _lose_the_slot(source: psycopg.Connection[Any]) -> None:
    wait_until(lambda: _dropped(source), 60)


def _dropped(source: psycopg.Connection[Any]) -> bool:
    source.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'lakehouse'")
    try:
        source.execute("SELECT pg_drop_replication_slot('lakehouse')")
    except psycopg.errors.ObjectInUse:
        return False
    return True


def _forget_the_mark(source: psycopg.Connection[Any]) -> None:
    """As a source does that was restored to a moment before capture left it."""
    source.execute("UPDATE lakehouse.heartbeat SET mark = gen_random_uuid(), mark_before = NULL")


@pytest.mark.parametrize(("lose", "page"), [(_lose_the_slot, "slot-lost"), (_forget_the_mark, "source-restored")])
def test_capture_stops_rather_than_miss_changes_until_all_is_resynced(stack: Stack, lose: Any, page: str) -> None:
    stack.sql(
        "CREATE TABLE IF NOT EXISTS gap (id bigint PRIMARY KEY, note text)",
        "INSERT INTO gap SELECT g, 'kept' FROM generate_series(1, 300) g ON CONFLICT (id) DO NOTHING",
        "CREATE TABLE IF NOT EXISTS lines (line text)",
        "INSERT INTO lines VALUES ('one'), ('two'), ('two')",
    )
    stack.assert_equal("gap", "lines")
    marks = stack.folder / ".lakehouse/data/capture/marks.json"
    wait_until(marks.exists)
    with administrator(stack) as source:
        lose(source)
    stack.sql(
        "DELETE FROM gap WHERE id % 3 = 0",
        "UPDATE gap SET note = 'changed' WHERE id % 3 = 1",
        "INSERT INTO lines VALUES ('three')",
    )
    wait_until(lambda: f"infra/runbooks/{page}.md" in (capture(stack)["error"] or ""))
    assert "lakehouse resync --all" in capture(stack)["next_step"]
    assert "capture doesn't run" in stack.lakehouse("resync", "gap", ok=(2,))["error"]
    test = "test_capture_stops_rather_than_miss_changes_until_all_is_resynced"
    follow(stack, RUNBOOKS / f"{page}.md", f"tests/chaos/test_resync.py::{test}")
    wait_until(lambda: capture(stack)["error"] is None)
    with stack.workload(rate=5, seed=71):
        stack.sql("INSERT INTO gap VALUES (3, 'again'), (6, 'again') ON CONFLICT (id) DO NOTHING")
    stack.assert_equal()
