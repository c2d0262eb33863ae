"""Debezium's change event: what its Avro schema says of a table, and the part of it that the mirror reads."""

import json
from functools import lru_cache
from typing import Any

from pipelines.schema.columns import SHAPES, SourceColumn, TableShape
from pipelines.schema.lake_types import UnsupportedType
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.names import ESCAPED_UNDERSCORE, column_name, row_of
from pipelines.sources.debezium.types import lake_type, needs_log


class NotAChangeEvent(ValueError):
    """The schema isn't that of a Debezium change event of this topic's table."""


@lru_cache(maxsize=SHAPES)
def table_shape(
    topic: str,
    table: tuple[str, str],
    writer_schema: str,
    dialect: Dialect,
    bases: tuple[tuple[str, str], ...] = (),
) -> TableShape:
    """Return the table described by the value schema of an event on ``topic``, without what the lake can't hold.

    ``table``: schema and name of the table that the topic is of. ``bases``: what values of some declared types are of,
    by the source's schema log. Raises NotAChangeEvent, which names what it met, when the schema belongs to something
    else.
    """
    schema = json.loads(writer_schema)
    if not isinstance(schema, dict):
        raise NotAChangeEvent(f"its schema is {schema}, not {topic}.Envelope")
    fields = {field["name"]: field["type"] for field in schema.get("fields", [])}
    named = str(schema.get("connect.name")).replace(ESCAPED_UNDERSCORE, "_")
    # The connector has no dash in the names of schemas.
    if named != f"{topic.replace('-', '_')}.Envelope" or not {"before", "after", "op", "source"} <= fields.keys():
        raise NotAChangeEvent(f"its schema is {schema.get('connect.name') or schema.get('name')}, not {topic}.Envelope")
    columns, left_out, unexplained, known = [], [], [], dict(bases)
    for field in row_of(schema):
        name, avro = column_name(field), field["type"]
        try:
            kind = lake_type(avro, dialect, known)
        except UnsupportedType as error:
            left_out.append((name, str(error)))
        else:
            columns.append(SourceColumn(name, avro, kind, field.get("default") is not None, field["name"]))
            unexplained += [(name, declared) for declared in needs_log(avro, dialect)]
    return TableShape(topic, *table, tuple(columns), schema["namespace"], tuple(left_out), tuple(unexplained))


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
