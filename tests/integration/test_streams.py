"""Event streams on real servers: each event once, also after a kill; and schemas that change."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pipelines.kafka.client import create_topic
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
    for table in tables:
        wait_until(lambda table=table: _has_all(stack, table))
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


def _rows(stack: Stack) -> list[tuple[int, Any]]:
    rows = stack.catalog().load_table("events.signups").scan().to_arrow().to_pylist()
    return sorted(((row["id"], row.get("place")) for row in rows), key=lambda row: row[0])
