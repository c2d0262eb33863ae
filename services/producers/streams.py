"""The streams that there are: the topic of each, what happens there, and how its events are written."""

from collections.abc import Mapping
from random import Random

from confluent_kafka.schema_registry import SchemaRegistryClient

from services.producers.clicks import Clicks
from services.producers.encode import SCHEMAS, plain_json, registered
from services.producers.factory import Factory
from services.producers.logs import Logs
from services.producers.send import Stream
from services.producers.settings import ProducerSettings
from services.shop.clientele import Clientele

CLICKS, LOGS, READINGS = "clicks", "logs", "readings"
TOPICS = {CLICKS: "events.clicks", LOGS: "events.logs", READINGS: "iot.readings"}


def streams(settings: ProducerSettings, rates: Mapping[str, float], seed: int) -> dict[str, Stream]:
    """Return the streams that have a rate. Raises Unreachable, SchemaRegistryError or httpx.HTTPError."""
    registry = SchemaRegistryClient({"url": settings.schema_registry_url, "timeout": 30})
    found = {}
    for name, rate in rates.items():
        random, topic = Random(f"{seed}/{name}"), TOPICS[name]  # noqa: S311
        if name == CLICKS:
            shop = Clientele.of(settings)
            encode = registered(registry, topic, SCHEMAS / "clicks.json")
            found[name] = Stream(topic, Clicks(random, shop.customers, shop.products), encode, rate)
        elif name == LOGS:
            found[name] = Stream(topic, Logs(random), plain_json, rate)
        else:
            encode = registered(registry, topic, SCHEMAS / "readings.avsc")
            found[name] = Stream(topic, Factory(random), encode, rate)
    return found
