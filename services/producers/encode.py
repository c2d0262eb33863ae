"""Write an event's document as its topic has it: JSON alone, or JSON or Avro by a schema of the registry."""

import io
import json
from pathlib import Path
from typing import Any, Protocol

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

SCHEMAS = Path(__file__).parent / "schemas"


class Encode(Protocol):
    """Writes documents."""

    def __call__(self, value: dict[str, Any], /) -> bytes:
        """Return the bytes of a document."""
        ...


def plain_json(value: dict[str, Any]) -> bytes:
    """Return a document as JSON that names no schema."""
    return json.dumps(value, ensure_ascii=False).encode()


def registered(registry: SchemaRegistryClient, topic: str, schema: Path) -> Encode:
    """Register a topic's schema, and return what writes by it in Confluent's wire format.

    ``schema``: a file of JSON Schema (``.json``) or Avro (``.avsc``). Raises SchemaRegistryError.
    """
    text = schema.read_text(encoding="utf-8")
    kind = "AVRO" if schema.suffix == ".avsc" else "JSON"
    identifier = registry.register_schema(f"{topic}-value", Schema(text, kind))
    head = b"\0" + identifier.to_bytes(4, "big")
    if kind == "JSON":
        return lambda value: head + plain_json(value)
    parsed = fastavro.parse_schema(json.loads(text))

    def avro(value: dict[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, value)
        return head + body.getvalue()

    return avro
