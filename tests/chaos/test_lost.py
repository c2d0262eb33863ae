"""Kafka, the catalog, a file of the lake, and the whole machine are lost; the runbooks bring all of it back.

Their commands are run as they stand there.
"""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pipelines.kafka.client import create_topic
from services.stack.object_store import object_store
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import Stack, loaded, wait_until

pytestmark = pytest.mark.process

HERE = "tests/chaos/test_lost.py"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with a small shop, streams and a folder for backups."""
    with loaded(tmp_path_factory.mktemp("lakehouse")) as running:
        running.start("streams")
        running.sql(
            "CREATE TABLE lost (id int PRIMARY KEY, note text)",
            "INSERT INTO lost SELECT g, 'first' FROM generate_series(1, 300) g",
        )
        running.assert_equal("lost")
        yield running


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runbooks' backups are."""
    return tmp_path_factory.mktemp("backups")


def signups(stack: Stack, *events: int) -> None:
    own = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}, "place": {"type": "string"}}
    schema = json.dumps({"type": "object", "required": ["id"], "properties": own})
    registry = SchemaRegistryClient({"url": stack.endpoints["schema_registry_url"]})
    number = registry.register_schema("signups-value", Schema(schema, "JSON"))
    create_topic(stack.endpoints["kafka_bootstrap"], "signups", {})
    producer = Producer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]})
    for event in events:
        value = json.dumps({"id": event, "at": datetime.now(UTC).isoformat(), "place": "north"}).encode()
        producer.produce("signups", b"\0" + number.to_bytes(4, "big") + value, partition=0)
    assert producer.flush(600) == 0


def signed_up(stack: Stack) -> list[int]:
    lake = stack.catalog()
    if not lake.table_exists("events.signups"):
        return []
    return sorted(lake.load_table("events.signups").scan().to_arrow()["id"].to_pylist())


def lose(stack: Stack, service: str) -> None:
    """Kill a service, whose data is gone when it comes back."""
    killed = stack.processes(service)
    shutil.move(stack.folder / f".lakehouse/data/{service}", stack.folder / f"lost-{service}")
    for process in killed:
        process.kill()
    shutil.rmtree(stack.folder / f"lost-{service}")


def equal(stack: Stack) -> None:
    """The lake equals its source, and its histories are whole. The topic of dead letters was lost with Kafka, so it is
    not asked for.
    """
    stack.lakehouse("wait")
    assert stack.lakehouse("verify")["equal"]
    assert stack.lakehouse("verify", "--ledger")["whole"]


def is_healthy(stack: Stack, service: str) -> bool:
    return next(it["state"] for it in stack.report()["services"] if it["name"] == service) == "healthy"


def letters(stack: Stack) -> list[tuple[str, str]]:
    found = stack.lakehouse("dlq", "list")["letters"]
    return [(letter["topic"], letter["reason"]) for letter in found if letter["topic"] == "shop.public.lost"]


def test_kafka(house: Stack) -> None:
    for _ in range(3):
        house.produce("lost", b"poison")
    wait_until(lambda: len(letters(house)) == 3)
    signups(house, 1, 2, 3)
    wait_until(lambda: signed_up(house) == [1, 2, 3])
    house.assert_equal("lost")
    lose(house, "kafka")
    house.make("kill", "s=connect")
    # What capture misses, since its offsets are gone as well: among it a delete of what the lake has.
    house.sql("DELETE FROM lost WHERE id <= 5", "UPDATE lost SET note = 'second' WHERE id = 6")
    wait_until(lambda: "shop.public.lost isn't the topic any more" in house.status())
    wait_until(lambda: house.report()["capture"]["connector"] == "RUNNING")
    signups(house, 4)
    wait_until(lambda: "signups isn't the topic any more" in house.status())
    follow(house, RUNBOOKS / "kafka-lost.md", f"{HERE}::test_kafka")
    equal(house)
    wait_until(lambda: signed_up(house) == [1, 2, 3, 4])
    assert house.own("verify", "--events", "events.signups")["equal"]
    assert letters(house) == []
    # A letter at a position that an older one had is a letter of its own, and may be given up by itself.
    house.produce("lost", b"poison")
    wait_until(lambda: letters(house) == [("shop.public.lost", "not_avro")])
    house.lakehouse("dlq", "discard", "--topic", "shop.public.lost", "--because", "test")
    house.sql("UPDATE lost SET note = 'third' WHERE id = 7")
    equal(house)


def test_catalog(house: Stack, backups: Path) -> None:
    house.lakehouse("backup", str(backups))
    house.sql("INSERT INTO lost VALUES (1000, 'after the backup')")
    equal(house)
    before = {name: house.catalog().load_table(name).metadata.table_uuid for name in ("shop.lost", "shop.orders")}
    lose(house, "metadata-db")
    wait_until(lambda: is_healthy(house, "metadata-db"))
    for service in ("catalog", "schema-registry"):
        for process in house.processes(service):
            process.kill()
    wait_until(lambda: is_healthy(house, "catalog") and is_healthy(house, "schema-registry"))
    # The mirror has time to make a table anew.
    house.sql("INSERT INTO lost VALUES (1001, 'while it was lost')")
    wait_until(lambda: house.catalog().table_exists("shop.lost"))
    follow(house, RUNBOOKS / "catalog-lost.md", f"{HERE}::test_catalog", BACKUPS=str(backups))
    house.start("streams")
    assert {name: house.catalog().load_table(name).metadata.table_uuid for name in before} == before
    house.sql("ALTER TABLE lost ADD COLUMN more int", "INSERT INTO lost VALUES (1002, 'with another schema', 1)")
    equal(house)


def test_file(house: Stack, backups: Path) -> None:
    equal(house)
    house.lakehouse("backup", str(backups))
    table, store = house.catalog().load_table("shop.lost"), object_store(house.settings)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table.io)[0]
    data = table.inspect.files()["file_path"][0].as_py()
    for path in (data, manifest.manifest_path):
        store.delete_file(path.removeprefix("s3://"))
    follow(house, RUNBOOKS / "file-lost.md", f"{HERE}::test_file", BACKUPS=str(backups))
    done = house.lakehouse("restore", str(backups), "--files")
    assert (done["files"], done["lost"]) == (0, [])
    equal(house)


def test_machine(house: Stack, backups: Path) -> None:
    """The machine is there; what the next test restores is made."""
    before = {path.name for path in backups.iterdir()}
    follow(house, RUNBOOKS / "moving.md", f"{HERE}::test_machine", BACKUPS=str(backups))
    made = {path.name for path in backups.iterdir()} - before
    assert len(made) == 1
    content = (backups / made.pop() / "settings.env").read_text()
    assert all(secret in content for secret in house.secrets)


def test_another_machine(house: Stack, backups: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Of the tables one has changed since the backup, and has lost rows.
    house.sql("DELETE FROM lost WHERE id BETWEEN 20 AND 30", "INSERT INTO lost VALUES (2000, 'since', 2)")
    snapshots = {snapshot.snapshot_id for snapshot in house.catalog().load_table("shop.lost").metadata.snapshots}
    rows = house.catalog().load_table("shop.lost").scan().to_arrow().num_rows
    house.make("down")
    house.start("source-db")
    overlay = ".lakehouse/elsewhere.yml"
    elsewhere = Stack(tmp_path_factory.mktemp("elsewhere"), "process", overlay)
    elsewhere.prepare()
    # The source is where it was.
    own = {"x-process": {"skip": True}}
    (elsewhere.folder / overlay).write_text(json.dumps({"services": {"source-db": own, "shop-setup": own}}))
    settings = elsewhere.folder / ".env"
    mine, theirs = (f"SOURCE_DB_PORT={stack.setting('SOURCE_DB_PORT')}\n" for stack in (elsewhere, house))
    settings.write_text(settings.read_text().replace(mine, theirs))
    try:
        follow(elsewhere, RUNBOOKS / "moving.md", f"{HERE}::test_another_machine", BACKUPS=str(backups))
        equal(elsewhere)
        restored = elsewhere.catalog().load_table("shop.lost")
        older = [s for s in restored.metadata.snapshots if s.snapshot_id in snapshots]
        assert older
        assert restored.scan(snapshot_id=older[-1].snapshot_id).to_arrow().num_rows >= rows - 1
        assert elsewhere.setting("PROTECTION_KEY") == house.setting("PROTECTION_KEY")
        again = elsewhere.own("restore", str(backups), ok=(2,))
        assert "gone on since the backup" in again["error"]
    finally:
        elsewhere.make("down")
