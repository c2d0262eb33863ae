"""Debezium's change event: what its Avro schema says of a table, and the part of it that the mirror reads."""

import json
from functools import lru_cache
from typing import Any

from pipelines.schema.columns import SHAPES, SourceColumn, TableShape
from pipelines.sources.postgres.names import ESCAPED_UNDERSCORE, column_name
from pipelines.sources.postgres.types import lake_type

_SOURCE = {"lsn": "long", "ts_us": "long", "sequence": "string", "schema": "string", "table": "string"}


class NotAChangeEvent(ValueError):
    """The schema isn't that of a Debezium change event of this topic's table."""


@lru_cache(maxsize=SHAPES)
def table_shape(topic: str, table: tuple[str, str], writer_schema: str) -> TableShape:
    """The table described by the value schema of an event on ``topic``, which is that of ``table`` (schema and name).

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
        SourceColumn(column_name(f), f["type"], lake_type(f["type"]), f.get("default") is not None, f["name"])
        for f in row["fields"]
    )
    return TableShape(topic, *table, columns, schema["namespace"])


def key_fields(key_schema: str) -> tuple[str, ...]:
    """What the events call the key's columns, in order, from the Avro schema of an event's key."""
    schema = json.loads(key_schema)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise NotAChangeEvent("its key isn't a record")
    return tuple(field["name"] for field in schema["fields"])


def _optional(avro: Any) -> Any:
    branches = avro if isinstance(avro, list) else [avro]
    return ["null", *[branch for branch in branches if branch != "null"]]
