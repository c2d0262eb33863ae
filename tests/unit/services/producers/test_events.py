"""What the producers send: the same for a seed, mostly well-formed, and odd as often as it says."""

import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import fastavro
import jsonschema
import pytest

from services.producers.clicks import Clicks
from services.producers.encode import SCHEMAS
from services.producers.event import Event, Events
from services.producers.factory import BROKEN, Factory
from services.producers.logs import Logs

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MAKERS: dict[str, Callable[[Random], Events]] = {
    "clicks": lambda random: Clicks(random, range(100, 200), range(1, 50)),
    "clicks in an empty shop": lambda random: Clicks(random, (), ()),
    "logs": Logs,
    "readings": Factory,
}


def made(name: str, count: int = 20_000, seed: int = 7) -> list[Event]:
    maker = MAKERS[name](Random(seed))
    return [event for n in range(count) for event in maker.at(NOON + timedelta(seconds=n))]


def documents(events: list[Event]) -> list[dict[str, Any]]:
    return [event.value for event in events if isinstance(event.value, dict)]


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_seed_makes_the_same_events(name: str) -> None:
    assert str(made(name, 500)) == str(made(name, 500))
    assert str(made(name, 500)) != str(made(name, 500, seed=8))


@pytest.mark.parametrize("name", ["clicks", "clicks in an empty shop"])
def test_clicks_are_what_their_schema_says(name: str) -> None:
    check = jsonschema.Draft7Validator(json.loads((SCHEMAS / "clicks.json").read_text(encoding="utf-8")))
    for value in documents(made(name, 2_000)):
        check.validate(value)


def test_who_is_anonymous_at_first_is_known_later() -> None:
    known: dict[str, int] = {}
    first = 0
    for value in documents(made("clicks")):
        browser, customer = value["anonymous_id"], value["customer_id"]
        if browser in known and customer is not None and known[browser] == -1:
            assert value["event_type"] == "identify"
            first += 1
        assert known.get(browser, -1) in (-1, customer), "a browser is one customer's"
        known[browser] = -1 if customer is None else customer
    assert first > 100
    assert set(known.values()) - {-1} <= set(range(100, 200))


def test_some_clicks_come_late_and_some_twice() -> None:
    events = made("clicks")
    twice = [count for count in Counter(value["event_id"] for value in documents(events)).values() if count > 1]
    assert 0.002 < len(twice) / len(events) < 0.01
    assert 0.005 < sum(event.delay > 30 for event in events) / len(events) < 0.02


def test_readings_are_what_their_schema_says_but_for_the_broken_device() -> None:
    schema = fastavro.parse_schema(json.loads((SCHEMAS / "readings.avsc").read_text(encoding="utf-8")))
    events = made("readings")
    for value in documents(events):
        fastavro.schemaless_writer(io.BytesIO(), schema, value)
    odd = [event for event in events if not isinstance(event.value, dict)]
    odd += [event for event in events if isinstance(event.value, dict) and not -1e3 < event.value["value"] < 1e3]
    assert {event.key for event in odd} == {BROKEN}
    assert {value["quality"] for value in documents(events)} == {"good", "suspect", "bad"}
    assert {value["shift"] for value in documents(events)} >= {"early", "late"}


def test_logs_are_json() -> None:
    lines = documents(made("logs", 2_000))
    assert len({line["log_id"] for line in lines}) == len(lines)
    assert {line["level"] for line in lines} == {"DEBUG", "INFO", "WARN", "ERROR"}
    assert any(line["http"] is None for line in lines)
    assert json.loads(json.dumps(lines)) == lines
