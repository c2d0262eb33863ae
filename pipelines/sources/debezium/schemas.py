"""Look up what the schema registry says of the records in a batch of one topic."""

import json

from pipelines.errors import UnknownSchema
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.registry import SchemaLookup
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import UnsupportedType
from pipelines.sources.base.change_rows import UNKNOWN_SCHEMA
from pipelines.sources.base.source import Schemas
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.envelope import NotAChangeEvent, key_fields, table_shape


def look_up(
    registry: SchemaLookup,
    profile: TopicProfile,
    table: tuple[str, str],
    dialect: Dialect,
    bases: tuple[tuple[str, str], ...] = (),
) -> Schemas:
    """Return the schemas of the ids that ``profile`` has, of events of ``table`` (schema and name).

    ``bases``: what values of some declared types are of. Raises RetryBatch while the registry doesn't answer.
    """
    written: dict[str, tuple[TableShape, dict[int, str]]] = {}
    rejected = {}
    keys = _keys(registry, profile)
    for identifier in sorted(profile.schema_ids, key=lambda i: profile.schema_ids[i]):
        try:
            writer = registry.schema(identifier)
            shape = table_shape(profile.topic, table, writer, dialect, bases)
            _check_key(shape, keys or ())
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
    return Schemas(shapes, rejected, None if keys is None else tuple(called.get(name, name) for name in keys))


def _check_key(shape: TableShape, keys: tuple[str, ...]) -> None:
    """Raise UnsupportedType where the lake has no type for a column of the key."""
    for name, why in shape.left_out:
        if name in keys:
            raise UnsupportedType(f"{name} of the key: {why}")


def _keys(registry: SchemaLookup, profile: TopicProfile) -> tuple[str, ...] | None:
    """Return what the events call the key's columns, by the newest key schema."""
    for identifier in sorted(profile.key_schema_ids, reverse=True):
        try:
            return key_fields(registry.schema(identifier))
        except (UnknownSchema, NotAChangeEvent):
            continue
    return None
