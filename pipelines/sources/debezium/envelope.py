"""Debezium's change event: what its Avro schema says of a table, and the part of it that the mirror reads."""

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from pipelines.sources.postgres.names import ESCAPED_UNDERSCORE, column_name
from pipelines.sources.postgres.types import LakeType, lake_type

# Of so many tables and versions of them the shape is kept. It is one object each time, and so is what is made of it.
SHAPES = 1_000
_SOURCE = {"lsn": "long", "ts_us": "long", "sequence": "string", "schema": "string", "table": "string"}


class NotAChangeEvent(ValueError):
    """The schema isn't that of a Debezium change event of this topic's table."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a captured table: its name, its Avro schema in the events, its type in the lake, whether the source
    gives it a default (which rows older than the column then show, though no event says so), and what the events call
    it: Avro's names have fewer characters.
    """

    name: str
    avro: Any = dataclasses.field(hash=False)
    type: LakeType
    has_default: bool = False
    field: str = ""


@dataclass(frozen=True)
class TableShape:
    """A captured table as one version of its events' schema describes it."""

    topic: str
    schema_name: str
    table_name: str
    columns: tuple[SourceColumn, ...]
    namespace: str

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The source's columns, in the source's order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def toastable(self) -> tuple[SourceColumn, ...]:
        """Columns whose unchanged value PostgreSQL may leave out of an update."""
        return tuple(column for column in self.columns if column.type.toastable)

    @cached_property
    def reader_schema(self) -> str:
        """The Avro reader schema: only what the mirror uses, every column optional, so that any version resolves."""
        row = {
            "type": "record",
            "name": "Value",
            "namespace": self.namespace,
            "fields": [{"name": c.field, "type": _optional(c.avro), "default": None} for c in self.columns],
        }
        source = {
            "type": "record",
            "name": "Source",
            "namespace": "io.debezium.connector.postgresql",
            "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in _SOURCE.items()],
        }
        fields = [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", f"{self.namespace}.Value"], "default": None},
            {"name": "source", "type": ["null", source], "default": None},
            {"name": "op", "type": ["null", "string"], "default": None},
        ]
        return json.dumps({"type": "record", "name": "Envelope", "namespace": self.namespace, "fields": fields})


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
