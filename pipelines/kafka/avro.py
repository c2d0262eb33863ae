"""Confluent's wire format in Python, for the few records that aren't read by Spark."""

import io
import json
from functools import lru_cache
from typing import Any

import fastavro

from pipelines.errors import UnknownSchema
from pipelines.kafka.registry import SchemaRegistry

HEADER_BYTES = 5


class Undecodable(ValueError):
    """The bytes aren't an event that can be read; the mirror makes them dead letters."""


class Decoder:
    """Confluent's wire format to Python values and the writer's schema."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._parsed = lru_cache(maxsize=1024)(self._load)

    def decode(self, data: bytes) -> tuple[Any, dict[str, Any]]:
        """The value, and its writer schema as JSON. Raises Undecodable, or RetryBatch without a registry."""
        if len(data) <= HEADER_BYTES or data[0] != 0:
            raise Undecodable("not in Confluent's wire format")
        try:
            parsed, schema = self._parsed(int.from_bytes(data[1:HEADER_BYTES], "big"))
        except UnknownSchema as error:
            raise Undecodable(str(error)) from error
        try:
            return fastavro.schemaless_reader(io.BytesIO(data[HEADER_BYTES:]), parsed, None), schema
        except (EOFError, ValueError, TypeError, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise Undecodable(f"not Avro of its schema: {error}") from error

    def _load(self, schema_id: int) -> tuple[Any, dict[str, Any]]:
        schema = json.loads(self._registry.schema(schema_id))
        return fastavro.parse_schema(schema), schema
