"""Event streams on real servers: each event once, also after a kill; and schemas that change."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pipelines import failpoints
from pipelines.kafka.client import create_topic, read_range, stable_ends
from tests.integration.stack import WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process
SECONDS, RATE = 20, 20


@pytest.fixture(scope="module")
def streaming(stack: Stack) -> Stack:
    stack.start("streams")
    return stack


def _listed(stack: Stack, table: str) -> dict[str, Any] | None:
    found = [each for each in stack.lakehouse("table", "list")["tables"] if each["table"] == f"lake.{table}"]
    return dict(found[0]) if found else None


def _has_all(stack: Stack, table: str) -> bool:
    found = _listed(stack, table)
    return found is not None and found["lag"] == 0


def test_each_event_is_there_once_also_after_a_kill(streaming: Stack) -> None:
    stack, tables = streaming, ("events.clicks", "events.logs", "iot.readings")
    stack.sql("INSERT INTO customers VALUES (700, 'c@d', 'C', 'gold', '{}', NULL, false, '{}', NULL, now(), now())"
              " ON CONFLICT DO NOTHING")  # fmt: skip
    sent = stack.run_producers("run", "--rate", str(RATE), "--duration", str(SECONDS), "--seed", "11")
    wait_until(lambda: _listed(stack, tables[0]) is not None)
    stack.make("kill", "s=streams")
    more = stack.run_producers("run", "--rate", str(RATE), "--duration", str(SECONDS), "--seed", "12")
    ends = stack.own("wait", "--events", "--tables", ",".join(tables), "--timeout", str(WAIT_SECONDS))["end_offsets"]
    assert ends.keys() == set(tables)
    assert all(_has_all(stack, table) for table in tables)
    report = stack.own("verify", "--events", *tables)
    assert report["equal"]
    by_table = {each["table"]: each for each in report["tables"]}
    events = sum(each["events"] for each in report["tables"])
    assert events == sum(sent["sent"].values()) + sum(more["sent"].values())
    assert all(each["rows"] > 0 for each in report["tables"])
    readings = by_table["iot.readings"]
    assert readings["dead_letters"] > 0, "a device sends nonsense"
    assert readings["events"] == readings["rows"] + readings["dead_letters"] + readings["duplicates"]
    whole = stack.lakehouse("verify", "--ledger", *tables)
    assert whole["whole"]
    assert {each["complete"] for each in whole["tables"]} == {True}
    shown = stack.own("table", "show", "events.clicks")
    assert (shown["kind"], shown["layout"]["partition"]) == ("events", ["day(occurred_at)", "event_type"])
    assert {"struct", "list"} <= {column["type"].split("<")[0] for column in shown["columns"]}


def _schema(**properties: Any) -> str:
    own = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    return json.dumps({"type": "object", "required": ["id"], "properties": own | properties})


def _send(stack: Stack, identifier: int | None, *events: dict[str, Any]) -> None:
    head = b"" if identifier is None else b"\0" + identifier.to_bytes(4, "big")
    producer = Producer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]})
    for event in events:
        producer.produce("signups", head + json.dumps(event).encode())
    assert producer.flush(WAIT_SECONDS) == 0


def test_a_stream_follows_its_schema_as_its_spec_allows(streaming: Stack) -> None:
    """By the spec of ``events.signups`` in tests.integration.stack."""
    stack = streaming
    registry = SchemaRegistryClient({"url": stack.endpoints["schema_registry_url"]})
    create_topic(stack.endpoints["kafka_bootstrap"], "signups", {})
    first = registry.register_schema("signups-value", Schema(_schema(), "JSON"))
    at = {"at": "2026-03-01T12:00:00Z"}
    _send(stack, first, {"id": 1, **at}, {"at": None}, {"id": 2, **at})
    wait_until(lambda: _has_all(stack, "events.signups"))
    # A field more, and one within.
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    second = registry.register_schema("signups-value", Schema(_schema(place=place), "JSON"))
    place = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}}
    third = registry.register_schema("signups-value", Schema(_schema(place=place), "JSON"))
    _send(stack, third, {"id": 4, **at, "place": {"city": "b", "zip": "1"}})
    _send(stack, second, {"id": 3, **at, "place": {"city": "a"}})
    # Another type isn't followed: its records are dead letters, and the stream goes on.
    fourth = registry.register_schema("signups-value", Schema(_schema(place={"type": "string"}), "JSON"))
    _send(stack, fourth, {"id": 5, **at, "place": "here"})
    _send(stack, first, {"id": 6, **at})
    wait_until(lambda: _has_all(stack, "events.signups") and len(_rows(stack)) == 5)
    assert _rows(stack) == [
        (1, None), (2, None), (3, {"city": "a", "zip": None}), (4, {"city": "b", "zip": "1"}), (6, None),
    ]  # fmt: skip
    letters = stack.lakehouse("dlq", "list", "--topic", "signups")["letters"]
    assert sorted(letter["reason"] for letter in letters) == ["missing_value", "schema_withheld"]
    assert stack.own("verify", "--events", "events.signups")["equal"]


def test_a_stream_shows_nobody_what_breaks_its_contract_and_a_role_no_more_than_it_may_see(streaming: Stack) -> None:
    """By spec and contract of ``events.badges`` in tests.integration.stack."""
    stack = streaming
    stack.sql("CREATE TABLE hosts (id int PRIMARY KEY)", "INSERT INTO hosts SELECT generate_series(1, 6)")
    stack.lakehouse("wait", "--tables", "hosts")
    create_topic(stack.endpoints["kafka_bootstrap"], "badges", {})

    def send(*badges: int) -> None:
        producer = Producer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]})
        for badge in badges:
            event = {"id": badge, "at": "2026-03-01T12:00:00Z", "door": "north"}
            producer.produce("badges", json.dumps(event).encode())
        assert producer.flush(WAIT_SECONDS) == 0

    def seen() -> list[int]:
        lake = stack.catalog()
        rows = lake.load_table("events.badges").scan().to_arrow() if lake.table_exists("events.badges") else {"id": []}
        return sorted(int(f"{each}") for each in rows["id"])

    send(1, 2)
    wait_until(lambda: seen() == [1, 2])
    wait_until(lambda: [row["id"] for row in _shown(stack, "events.badges")] == [1, 2])
    assert all("door" not in row for row in _shown(stack, "events.badges"))
    send(3, 99)
    wait_until(lambda: "events.badges isn't published" in stack.status())
    assert seen() == [1, 2]
    assert not _has_all(stack, "events.badges")
    stack.sql("INSERT INTO hosts VALUES (99)")
    wait_until(lambda: seen() == [1, 2, 3, 99])
    assert stack.own("verify", "--events", "events.badges")["equal"]


def _shown(stack: Stack, table: str) -> list[dict[str, Any]]:
    """What the restricted role reads."""
    lake = stack.catalog("restricted")
    if not lake.table_exists(f"restricted_{table}"):
        return []
    rows = lake.load_table(f"restricted_{table}").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: next(iter(row.values())))


def _rows(stack: Stack) -> list[tuple[int, Any]]:
    rows = stack.catalog().load_table("events.signups").scan().to_arrow().to_pylist()
    return sorted(((row["id"], row.get("place")) for row in rows), key=lambda row: row[0])


SPENT = """SELECT b.id, b.name, count(l.id) AS bills, coalesce(sum(l.amount), 0) AS spent
           FROM buyers b LEFT JOIN bills l ON l.buyer = b.id GROUP BY b.id, b.name"""


def _spent(stack: Stack) -> dict[int, tuple[Any, ...]]:
    """What is in the lake, by PyIceberg."""
    rows = stack.catalog().load_table("marts.spent").scan().to_arrow().to_pylist()
    found = {row["buyer"]: (row["name"], row["bills"], row["spent"]) for row in rows}
    assert len(found) == len(rows)
    return found


def _wanted(stack: Stack) -> dict[int, tuple[Any, ...]]:
    """What the source says."""
    with stack.source() as source:
        rows = source.execute(SPENT).fetchall()
    return {row[0]: tuple(row[1:]) for row in rows}


def test_a_derived_table_is_what_its_query_makes_whatever_happens(streaming: Stack) -> None:
    """By the spec of ``marts.spent`` in tests.integration.stack."""
    stack = streaming
    assert "marts.spent: the lake has no shop.b" in stack.status()
    stack.sql(
        "CREATE TABLE buyers (id int PRIMARY KEY, name text NOT NULL)",
        "CREATE TABLE bills (id int PRIMARY KEY, buyer int, amount numeric(10,2) NOT NULL, note text)",
        "INSERT INTO buyers SELECT g, 'buyer ' || g FROM generate_series(1, 50) g",
        "INSERT INTO bills SELECT g, 1 + g % 40, g FROM generate_series(1, 400) g",
    )
    stack.lakehouse("wait")
    wait_until(lambda: _listed(stack, "marts.spent") is not None)
    wait_until(lambda: _spent(stack) == _wanted(stack))
    failpoints.arm(stack.folder / ".lakehouse/data/streams/failpoints", "after-merge", "kill")
    stack.sql("UPDATE bills SET buyer = 50 WHERE id <= 3", "DELETE FROM bills WHERE id BETWEEN 10 AND 15",
              "INSERT INTO buyers VALUES (51, 'new')", "DELETE FROM buyers WHERE id = 7",
              "UPDATE buyers SET name = 'renamed' WHERE id = 8")  # fmt: skip
    wait_until(lambda: _spent(stack) == _wanted(stack))
    # What the query doesn't read, a column more, and all of an input read again.
    stack.sql("UPDATE bills SET note = 'seen'", "ALTER TABLE bills ADD COLUMN paid boolean DEFAULT true",
              "INSERT INTO bills VALUES (1000, 51, 12.5, 'x', false)")  # fmt: skip
    stack.lakehouse("resync", "bills", "--because", "test")
    wait_until(lambda: _spent(stack) == _wanted(stack))
    # Nobody sees what breaks its contract, and a role no more than it is shown.
    seen = _spent(stack)
    stack.sql("INSERT INTO bills VALUES (2000, 9, -99999, NULL, false)")
    wait_until(lambda: "marts.spent isn't published" in stack.status())
    assert _spent(stack) == seen
    stack.sql("DELETE FROM bills WHERE id = 2000")
    wait_until(lambda: "isn't published" not in stack.status())
    wait_until(lambda: [(row["buyer"], row["spent"]) for row in _shown(stack, "marts.spent")]
               == sorted((buyer, row[2]) for buyer, row in _wanted(stack).items()))  # fmt: skip
    assert {"name", "bills"}.isdisjoint(_shown(stack, "marts.spent")[0])
    proof = stack.own("verify", "--derived", "marts.spent")
    assert proof["equal"], proof
    assert proof["tables"][0]["rows"] == 50
    # A message for each buyer that ever was, one of which came after the kill.
    bootstrap = stack.endpoints["kafka_bootstrap"]
    told = read_range(bootstrap, "alerts.spent", {0: (0, stable_ends(bootstrap, "alerts.spent")[0])})
    assert sorted(int(message.key() or 0) for message in told) == list(range(1, 52))
    # Lineage is told once a minute is over: which columns the sum is of, and not which rows there are.
    wait_until(lambda: "error" not in stack.lakehouse("lineage", "show", "marts.spent.spent", ok=(0, 2)))
    column = stack.lakehouse("lineage", "show", "marts.spent.spent", "--upstream")["graph"]
    assert {"amount", "spent"} == {node["data"]["field"] for node in column if "warehouse/" in node["id"]}
    stack.sql("DROP TABLE bills, buyers")
