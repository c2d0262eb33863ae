"""Evolve: make the table fit the changes. In this release: create it, and add new columns that have no default."""

import json
from collections.abc import Sequence
from typing import Any

from pipelines.errors import StopPipeline
from pipelines.fold import TECHNICAL
from pipelines.iceberg import Lake, LakeTable
from pipelines.sources.postgres.envelope import TableShape

TECHNICAL_TYPES = {"_kafka_partition": "int", "_kafka_offset": "long", "_lsn": "long", "_committed_at": "timestamptz"}
KEY_COLUMNS = "lakehouse.key-columns"


def lake_namespace(source: str, schema: str) -> str:
    """The lake namespace of a source schema: ``<source>`` for ``public``, else ``<source>_<schema>``."""
    return source if schema == "public" else f"{source}_{schema}"


def iceberg_schema(shape: TableShape, keys: Sequence[str]) -> dict[str, Any]:
    """The table's schema in Iceberg's JSON form: the source's columns, then the technical ones; the key required."""
    identifiers = _Identifiers()
    fields = [
        {
            "id": identifiers.take(),
            "name": c.name,
            "required": c.name in keys,
            "type": identifiers.number(c.type.iceberg),
        }
        for c in shape.columns
    ]
    fields += [
        {"id": identifiers.take(), "name": name, "required": False, "type": TECHNICAL_TYPES[name]} for name in TECHNICAL
    ]
    key_ids = [field["id"] for field in fields if field["name"] in keys]
    return {"type": "struct", "schema-id": 0, "identifier-field-ids": key_ids, "fields": fields}


def create_table(lake: Lake, source: str, shape: TableShape, keys: Sequence[str]) -> LakeTable:
    """Create the mirror of a source table."""
    clash = set(shape.column_names) & set(TECHNICAL)
    if clash:
        raise StopPipeline(
            f"{shape.topic} has the column {sorted(clash)[0]}, a name which the lake uses itself: rename it in the"
            " source, or leave the table out of the publication"
        )
    return lake.create(
        lake_namespace(source, shape.schema_name),
        shape.table_name,
        iceberg_schema(shape, keys),
        {
            "lakehouse.source": source,
            "lakehouse.source-schema": shape.schema_name,
            "lakehouse.source-table": shape.table_name,
            "lakehouse.topic": shape.topic,
            KEY_COLUMNS: json.dumps(list(keys)),
        },
    )


def fit(lake: Lake, table: LakeTable, shape: TableShape, keys: Sequence[str]) -> None:
    """Add the source's new columns to the table.

    Raise StopPipeline where that isn't enough, before anything is changed: the message says what differs, what to do.
    """
    present = {name: kind for name, kind in table.column_types.items() if name not in TECHNICAL}
    known_keys = json.loads(table.properties[KEY_COLUMNS])
    new = [column for column in shape.columns if column.name not in present]
    differences = [
        f"column {c.name} is new and has a default, which older rows show though no event says so"
        for c in new
        if c.has_default
    ]
    differences += [
        f"column {c.name} is {present[c.name]} in the lake and {_printed(c.type.iceberg)} in the source"
        for c in shape.columns
        if c.name in present and present[c.name] != _printed(c.type.iceberg)
    ]
    if sorted(known_keys) != sorted(keys):
        differences.append(f"the key is {known_keys} in the lake and {list(keys)} in the source")
    if differences:
        raise StopPipeline(
            f"{shape.topic} changed its schema in a way that this release can't follow: {'; '.join(differences)}."
            f" Nothing of this batch was merged into {table.sql_name}. Undo the change in the source, or drop the table"
            " from the lake to have it mirrored anew from its topic (README, Trouble)."
        )
    if new:
        identifiers = _Identifiers()
        fields = [
            {"id": identifiers.take(), "name": c.name, "required": False, "type": identifiers.number(c.type.iceberg)}
            for c in new
        ]
        table.add_columns(lake.jvm, {"type": "struct", "schema-id": 0, "fields": fields})


class _Identifiers:
    """Field ids, each used once."""

    def __init__(self) -> None:
        self._last = 0

    def take(self) -> int:
        self._last += 1
        return self._last

    def number(self, kind: Any) -> Any:
        if isinstance(kind, dict):
            return {**kind, "element-id": self.take(), "element": self.number(kind["element"])}
        return kind


def _printed(kind: Any) -> str:
    return f"list<{_printed(kind['element'])}>" if isinstance(kind, dict) else str(kind)
