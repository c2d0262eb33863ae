"""Debezium-like Avro events for tests of the stages: schemas as the connector registers them, bytes on the wire."""

import json
from io import BytesIO
from typing import Any

import fastavro

PLACEHOLDER = "unavailable-0123456789abcdef"
PREFIX = "shop.public"


def value_schema(table: str, columns: dict[str, Any]) -> str:
    """The value schema of a table's events: ``columns`` is name to Avro type."""
    namespace = f"{PREFIX}.{table}"
    row = {
        "type": "record",
        "name": "Value",
        "connect.name": f"{namespace}.Value",
        "fields": [{"name": name, "type": kind} for name, kind in columns.items()],
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [
            {"name": "db", "type": "string"},
            {"name": "ts_us", "type": ["null", "long"], "default": None},
            {"name": "txId", "type": ["null", "long"], "default": None},
            {"name": "lsn", "type": ["null", "long"], "default": None},
            {"name": "schema", "type": "string"},
            {"name": "table", "type": "string"},
        ],
    }
    return json.dumps(
        {
            "type": "record",
            "name": "Envelope",
            "namespace": namespace,
            "connect.name": f"{namespace}.Envelope",
            "fields": [
                {"name": "before", "type": ["null", row], "default": None},
                {"name": "after", "type": ["null", "Value"], "default": None},
                {"name": "source", "type": source},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"], "default": None},
            ],
        }
    )


def key_schema(table: str, columns: dict[str, Any]) -> str:
    """The key schema of a table's events."""
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    return json.dumps({"type": "record", "name": "Key", "namespace": f"{PREFIX}.{table}", "fields": fields})


def wire(schema_id: int, schema: str, datum: Any) -> bytes:
    """``datum`` in Confluent's wire format; a change event says which table it is of, unless it does already."""
    body, parsed = BytesIO(), json.loads(schema)
    if isinstance(datum, dict) and "source" in datum:
        _, namespace, table = parsed["namespace"].split(".")
        datum = {**datum, "source": {"schema": namespace, "table": table, **datum["source"]}}
    fastavro.schemaless_writer(body, fastavro.parse_schema(parsed), datum)
    return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()


def event(op: str, lsn: int, after: Any = None, before: Any = None) -> dict[str, Any]:
    """A change event; it was committed ``lsn`` microseconds after the epoch."""
    source = {"db": "shop", "ts_us": lsn, "txId": lsn, "lsn": lsn}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 0}
