"""Records of topics: a range of them, and what their bytes say."""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Message

from pipelines.errors import RetryBatch, StopPipeline
from pipelines.kafka import avro, client
from pipelines.kafka.registry import SchemaRegistry
from services.stack.errors import CannotVerify, Unreachable


class Decoder(avro.Decoder):
    """Confluent's wire format to Python values and the writer's schema."""

    def __init__(self, registry_url: str) -> None:
        super().__init__(SchemaRegistry(registry_url))
        self._url = registry_url

    def decode(self, data: bytes) -> tuple[Any, dict[str, Any]]:
        """Return the value, and its writer schema as JSON. Raises Undecodable, or Unreachable without a registry."""
        try:
            return super().decode(data)
        except RetryBatch as error:
            raise Unreachable("The schema registry", self._url, error) from error


def read_range(bootstrap: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Yield the records of these ranges of a topic. Raises Unreachable, CannotVerify."""
    try:
        yield from client.read_range(bootstrap, topic, ranges)
    except RetryBatch as error:
        raise Unreachable("Kafka", bootstrap, error) from error
    except StopPipeline as error:
        raise CannotVerify(str(error)) from error
