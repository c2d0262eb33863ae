"""What the schema registry says of the records in a batch of one topic."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.errors import UnknownSchema
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.registry import SchemaRegistry
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import UnsupportedType
from pipelines.sources.base.change_rows import UNKNOWN_SCHEMA
from pipelines.sources.debezium.envelope import NotAChangeEvent, key_fields, table_shape


@dataclass(frozen=True)
class Schemas:
    """``written``: each shape that the records were written in, with its writer schemas by id, the newest last.
    ``rejected``: for each id that can't be used the reason. ``keys``: the key's columns by the newest key schema; None
    if no record has one.
    """

    written: tuple[tuple[TableShape, dict[int, str]], ...]
    rejected: dict[int, str]
    keys: tuple[str, ...] | None

    @property
    def shape(self) -> TableShape | None:
        """The newest shape that can be used."""
        return self.written[-1][0] if self.written else None


def look_up(registry: SchemaRegistry, seen: TopicProfile, table: tuple[str, str]) -> Schemas:
    """The schemas of the ids that ``seen`` has, of events of ``table`` (schema and name).

    Raises RetryBatch while the registry doesn't answer.
    """
    written: dict[str, tuple[TableShape, dict[int, str]]] = {}
    rejected = {}
    for identifier in sorted(seen.schema_ids, key=lambda i: seen.schema_ids[i]):
        try:
            writer = registry.schema(identifier)
            shape = table_shape(seen.topic, table, writer)
        except UnknownSchema:
            rejected[identifier] = UNKNOWN_SCHEMA
        except NotAChangeEvent as error:
            rejected[identifier] = f"foreign_schema: {error}"
        except UnsupportedType as error:
            rejected[identifier] = f"unsupported_type: {error}"
        else:
            same = json.dumps([shape.namespace, [(column.name, column.avro) for column in shape.columns]])
            _, writers = written.pop(same, (shape, {}))
            written[same] = shape, writers | {identifier: writer}
    shapes = tuple(written.values())
    called = {column.field: column.name for shape, _ in shapes for column in shape.columns}
    return Schemas(shapes, rejected, _keys(registry, seen, called))


def _keys(registry: SchemaRegistry, seen: TopicProfile, called: Mapping[str, str]) -> tuple[str, ...] | None:
    for identifier in sorted(seen.key_schema_ids, reverse=True):
        try:
            return tuple(called.get(name, name) for name in key_fields(registry.schema(identifier)))
        except (UnknownSchema, NotAChangeEvent):
            continue
    return None
