"""Debezium's change event: what its Avro schema says of a table, and the part of it that the mirror reads."""

import json
from functools import lru_cache
from typing import Any

from pipelines.schema.columns import SHAPES, SourceColumn, TableShape
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.names import ESCAPED_UNDERSCORE, column_name
from pipelines.sources.debezium.types import lake_type


class NotAChangeEvent(ValueError):
    """The schema isn't that of a Debezium change event of this topic's table."""


@lru_cache(maxsize=SHAPES)
def table_shape(topic: str, table: tuple[str, str], writer_schema: str, dialect: Dialect) -> TableShape:
    """Return the table described by the value schema of an event on ``topic``.

    ``table``: schema and name of the table that the topic is of.

    Raises NotAChangeEvent when the schema belongs to something else, and UnsupportedType for a column that the lake
    can't hold; both name what they met.
    """
    schema = json.loads(writer_schema)
    if not isinstance(schema, dict):
        raise NotAChangeEvent(f"its schema is {schema}, not {topic}.Envelope")
    fields = {field["name"]: field["type"] for field in schema.get("fields", [])}
    named = str(schema.get("connect.name")).replace(ESCAPED_UNDERSCORE, "_")
    # The connector has no dash in the names of schemas.
    if named != f"{topic.replace('-', '_')}.Envelope" or not {"before", "after", "op", "source"} <= fields.keys():
        raise NotAChangeEvent(f"its schema is {schema.get('connect.name') or schema.get('name')}, not {topic}.Envelope")
    row = next(branch for branch in fields["before"] if isinstance(branch, dict))
    columns = tuple(
        SourceColumn(column_name(f), f["type"], lake_type(f["type"], dialect), f.get("default") is not None, f["name"])
        for f in row["fields"]
    )
    return TableShape(topic, *table, columns, schema["namespace"])


def key_fields(key_schema: str) -> tuple[str, ...]:
    """Return what the events call the key's columns, in order, from the Avro schema of an event's key."""
    schema = json.loads(key_schema)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise NotAChangeEvent("its key isn't a record")
    return tuple(field["name"] for field in schema["fields"])


@lru_cache(maxsize=SHAPES)
def reader_schema(shape: TableShape, dialect: Dialect) -> str:
    """Return the Avro reader schema: only what the mirror uses, every column optional, so that any version resolves."""
    row = {
        "type": "record",
        "name": "Value",
        "namespace": shape.namespace,
        "fields": [{"name": c.field, "type": _optional(c.avro), "default": None} for c in shape.columns],
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": dialect.connector,
        "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in dialect.source_fields],
    }
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", f"{shape.namespace}.Value"], "default": None},
        {"name": "source", "type": ["null", source], "default": None},
        {"name": "op", "type": ["null", "string"], "default": None},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "namespace": shape.namespace, "fields": fields})


def _optional(avro: Any) -> Any:
    branches = avro if isinstance(avro, list) else [avro]
    return ["null", *[branch for branch in branches if branch != "null"]]
