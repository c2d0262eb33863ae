"""Columns of a captured table, and its shape in one version of its events."""

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.schema.lake_types import LakeType
from pipelines.sources.debezium.envelope import _SOURCE, _optional

# Of so many tables and versions of them the shape is kept. It is one object each time, and so is what is made of it.
SHAPES = 1_000


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
