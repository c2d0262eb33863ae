"""Sources that misbehave for real: a slot given up, a restored database, records gone before they were read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from pipelines.kafka.client import EARLIEST, LATEST, list_offsets
from tests.chaos.test_resync import administrator, capture, held
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process


@contextmanager
def _stopped(stack: Stack) -> Iterator[Path]:
    """The whole stack at rest; the folder of the source's files."""
    stack.make("down")
    yield stack.folder / ".lakehouse/data/source-db"
    stack.up()


@contextmanager
def _frozen(stack: Stack, service: str) -> Iterator[None]:
    """A service that does nothing meanwhile, and is killed then."""
    process, *children = stack.processes(service)
    for one in (process, *children):
        one.suspend()
    try:
        yield
    finally:
        stack.make("kill", f"s={service}")
        for one in children:
            with suppress(psutil.NoSuchProcess):
                one.resume()


def _resync_all(stack: Stack, page: str) -> None:
    wait_until(lambda: f"infra/runbooks/{page}.md" in (capture(stack)["error"] or ""))
    stack.lakehouse("resync", "--all")
    wait_until(lambda: capture(stack)["error"] is None)
    with stack.workload(rate=5, seed=81):
        stack.moves_on()
    stack.assert_equal()


def test_a_source_that_does_not_let_the_connector_in(stack: Stack) -> None:
    """Connect calls the connector running: Debezium tries for ever."""
    stack.sql("CREATE TABLE closed (id bigint PRIMARY KEY)", "INSERT INTO closed VALUES (1)")
    stack.assert_equal("closed")
    with administrator(stack) as source:
        source.execute("ALTER ROLE debezium CONNECTION LIMIT 0")
        source.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'debezium'")
        stack.sql("INSERT INTO closed VALUES (2)")
        wait_until(lambda: "the source doesn't let the connector in" in (capture(stack)["error"] or ""))
        found = capture(stack)
        assert 'too many connections for role "debezium"' in found["error"]
        assert "infra/runbooks/capture-stalls.md" in found["error"]
        shown = stack.status()
        assert "too many connections for role" in shown
        source.execute("ALTER ROLE debezium CONNECTION LIMIT -1")
    wait_until(lambda: capture(stack)["error"] is None)
    stack.assert_equal("closed")


def test_a_slot_that_postgresql_gave_up(stack: Stack) -> None:
    stack.sql("CREATE TABLE given_up (id bigint PRIMARY KEY, note text)",
              "INSERT INTO given_up SELECT g, 'a' FROM generate_series(1, 500) g")  # fmt: skip
    stack.assert_equal("given_up")
    with stack.redirected("source-db", MAX_SLOT_WAL_KEEP_SIZE="32MB"):
        stack.connector("stop")
        stack.sql("DELETE FROM given_up WHERE id % 2 = 0")
        lost = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'lakehouse'"
        with administrator(stack) as source:

            def is_lost() -> bool:
                source.execute("SELECT pg_logical_emit_message(false, 'x', repeat('x', 20000000))")
                source.execute("SELECT pg_switch_wal()")
                source.execute("CHECKPOINT")
                return source.execute(lost).fetchone() == ("lost",)

            wait_until(is_lost)
        _resync_all(stack, "slot-lost")


def test_a_source_restored_from_a_copy_of_its_files(stack: Stack, tmp_path: Path) -> None:
    stack.sql("CREATE TABLE restored (id bigint PRIMARY KEY, note text)",
              "INSERT INTO restored SELECT g, 'then' FROM generate_series(1, 300) g")  # fmt: skip
    stack.assert_equal()
    with _stopped(stack) as files:
        shutil.copytree(files, tmp_path / "copy")
    stack.sql(
        "UPDATE restored SET note = 'future' WHERE id <= 100",
        "DELETE FROM restored WHERE id > 200",
        "INSERT INTO restored SELECT g, 'future' FROM generate_series(1000, 1100) g",
        "TRUNCATE usage_events",
    )
    stack.assert_equal("restored")
    marks = stack.folder / ".lakehouse/data/capture/marks.json"
    remembered = marks.read_text()
    wait_until(lambda: marks.read_text() != remembered)
    with _stopped(stack) as files:
        shutil.rmtree(files)
        shutil.copytree(tmp_path / "copy", files)
    stack.sql("UPDATE restored SET note = 'now' WHERE id <= 50", "INSERT INTO restored VALUES (1000, 'now')")
    _resync_all(stack, "source-restored")


def test_a_mirror_that_its_topics_have_outrun(stack: Stack) -> None:
    stack.sql("CREATE TABLE outlived (id bigint PRIMARY KEY)", "INSERT INTO outlived VALUES (1), (2), (3)")
    stack.assert_equal("outlived")
    admin, topic = AdminClient({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]}), "shop.public.outlived"
    with _frozen(stack, "mirror"):
        before = list_offsets(admin, [(topic, partition) for partition in range(3)], LATEST)
        stack.sql("DELETE FROM outlived WHERE id <= 2", "INSERT INTO outlived SELECT generate_series(10, 99)")
        wait_until(lambda: all(end > before[key] for key, end in list_offsets(admin, before, LATEST).items()))
        ends = list_offsets(admin, before, LATEST)
        for future in admin.delete_records([TopicPartition(*key, end) for key, end in ends.items()]).values():
            future.result()
        assert list_offsets(admin, ends, EARLIEST) == ends
    stack.sql("INSERT INTO outlived VALUES (1000)")
    wait_until(lambda: "lakehouse resync public.outlived" in held(stack).get(topic, ""))
    done = stack.lakehouse("resync", "outlived")["tables"][0]
    assert (done["read"], done["removed"]) == (92, 2)
    stack.assert_equal()


def test_connect_killed_again_and_again_repeats_nothing(stack: Stack) -> None:
    stack.sql("CREATE TABLE once (id bigint PRIMARY KEY)")
    with stack.workload(seed=82):
        for cycle in range(6):
            stack.sql(*(f"INSERT INTO once VALUES ({cycle * 100 + i})" for i in range(100)))
            stack.moves_on()
            stack.make("kill", "s=connect")
            stack.sql(f"INSERT INTO once SELECT generate_series({10_000 * (cycle + 1)}, {10_000 * (cycle + 1) + 4999})")
            stack.up()
    stack.assert_equal()
    ledger = stack.lakehouse("verify", "--ledger", "once")["tables"][0]
    assert ledger["counts"]["merged"] + ledger["counts"]["superseded"] == 600 + 6 * 5000


def test_a_schema_that_is_captured_later(stack: Stack) -> None:
    with administrator(stack) as source:
        source.execute("GRANT CREATE ON DATABASE shop TO shop")
    stack.sql(
        "CREATE SCHEMA billing",
        "CREATE TABLE billing.orders (id bigint PRIMARY KEY, note text)",
        "INSERT INTO billing.orders SELECT g, 'before' FROM generate_series(1, 300) g",
    )
    settings = stack.folder / ".env"
    settings.write_text(settings.read_text().replace("CAPTURED_SCHEMAS=public", "CAPTURED_SCHEMAS=public,billing"))
    assert stack.setting("CAPTURED_SCHEMAS") == "public,billing"
    stack.up()
    stack.sql(
        "CREATE TABLE billing.notes (note text)",
        "INSERT INTO billing.notes VALUES ('a'), ('a'), ('b')",
        "UPDATE billing.orders SET note = 'after' WHERE id <= 100",
        "DELETE FROM billing.orders WHERE id > 200",
        "DELETE FROM billing.notes WHERE ctid = (SELECT min(ctid) FROM billing.notes)",
    )
    # The rows from before are copied beside the stream, once the connector runs with its new schemas.
    wait_until(lambda: stack.lakehouse("verify", "billing.orders", ok=(0, 1))["equal"])
    stack.assert_equal()
    compared = {table["table"] for table in stack.lakehouse("verify", "billing.orders", "billing.notes")["tables"]}
    assert compared == {"billing.orders", "billing.notes"}
    rows = stack.catalog().load_table("shop_billing.orders").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["note"]) for row in rows) == [
        (number, "after" if number <= 100 else "before") for number in range(1, 201)
    ]


def test_a_tenfold_burst(stack: Stack) -> None:
    for seed, rate in ((84, 4), (85, 40), (86, 4)):
        with stack.workload(rate, seed):
            until = stack.transactions() + 50 * rate
            wait_until(lambda goal=until: stack.transactions() > goal)
    stack.assert_equal()
