"""Create a stream's table, and give it the columns that its schemas have by now."""

from collections.abc import Mapping
from typing import Any

from pipelines.errors import StopPipeline
from pipelines.events.changes import StreamChange, type_changes
from pipelines.events.columns import Column
from pipelines.lake.catalog import Lake
from pipelines.lake.iceberg_schema import Identifiers, union_of
from pipelines.lake.properties import EVENT_TIME, EVENTS, KIND, TOPIC
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns, column_protections
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import list_of, map_of, printed, struct_of
from pipelines.specs.events import EventSpec

# Where the record was, and when Kafka got it.
TECHNICAL = {"_kafka_partition": "int", "_kafka_offset": "long", "_ingested_at": "timestamptz"}


def create_table(lake: Lake, spec: EventSpec, shape: TableShape, protected: ProtectedColumns) -> LakeTable:
    """Create the table of a stream, with the columns of ``shape``. Raises StopPipeline."""
    _check_names(spec, shape)
    namespace, name = spec.name
    types = {column.name: column.type.iceberg for column in shape.columns}
    properties = {KIND: EVENTS, TOPIC: spec.topic, EVENT_TIME: spec.event_time.column}
    return lake.create(
        namespace, name, _schema(protected.shape(shape)), {**properties, **protected.properties({}, types)}
    )


def event_columns(table: LakeTable, spec: EventSpec) -> tuple[Column, ...]:
    """Return the columns that a table has of the events, in the events' types."""
    other, protected = {*TECHNICAL, spec.key, spec.headers}, column_protections(table.properties)
    types = {c["name"]: _unnumbered(c["type"]) for c in table.columns if c["name"] not in other}
    return tuple(Column(name, protected[name].type if name in protected else kind) for name, kind in types.items())


def differences(table: LakeTable, shape: TableShape) -> list[StreamChange]:
    """Return what the table lacks of the columns of ``shape``, which has the lake's types."""
    has = {column["name"]: column["type"] for column in table.columns}
    return [change for c in shape.columns for change in type_changes(c.name, has.get(c.name), c.type.iceberg)]


def follow(table: LakeTable, shape: TableShape) -> None:
    """Give the table the columns and types of ``shape``, in one commit; none is taken from it."""
    table.alter([union_of(table, _schema(shape))], {})


def check_columns(spec: EventSpec, shape: TableShape) -> None:
    """Raise StopPipeline where the columns aren't what the spec needs."""
    types = {column.name: column.type.iceberg for column in shape.columns}
    column = spec.event_time.column
    if types.get(column) not in ("timestamptz", "timestamp", "date"):
        found = f"is {printed(types[column])}" if column in types else "isn't among its columns"
        raise StopPipeline(
            f"{spec.table}: event_time.column is {column}, which {found}; it must be a timestamp. Mend the spec, or the"
            " schema, and restart the streams (`make up`)."
        )
    by = spec.deduplicate.by if spec.deduplicate is not None else None
    if by is not None and types.get(by) not in ("string", "int", "long"):
        raise StopPipeline(
            f"{spec.table}: deduplicate.by is {by}, which must be a column of text or whole numbers. Mend the spec."
        )


def _check_names(spec: EventSpec, shape: TableShape) -> None:
    clash = sorted(set(shape.column_names) & TECHNICAL.keys())
    if clash:
        raise StopPipeline(f"{spec.table} has the column {clash[0]}, a name which the lake uses itself: rename it")
    folded: dict[str, str] = {}
    for name in shape.column_names:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise StopPipeline(f"{spec.table} has the columns {other} and {name}, which SQL doesn't tell apart")


def _schema(shape: TableShape) -> dict[str, Any]:
    identifiers = Identifiers()
    columns = [(column.name, column.type.iceberg) for column in shape.columns] + list(TECHNICAL.items())
    numbered = [(identifiers.take(), name, kind) for name, kind in columns]
    fields = [
        {"id": number, "name": name, "required": False, "type": identifiers.number(kind)}
        for number, name, kind in numbered
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _unnumbered(kind: Any) -> Any:
    if not isinstance(kind, Mapping):
        return kind
    if kind["type"] == "list":
        return list_of(_unnumbered(kind["element"]))
    if kind["type"] == "map":
        return map_of(_unnumbered(kind["value"]))
    return struct_of({field["name"]: _unnumbered(field["type"]) for field in kind["fields"]})
