"""The schema of an Iceberg table, created and changed. Pure but for the objects of Iceberg that it is given."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pipelines.lake.table import LakeTable
from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.schema.plan import Change
from pipelines.schema.technical import TECHNICAL, TECHNICAL_TYPES

# Begins what a column's comment says of values that the lake can't hold.
INEXACT = "not exact; lost: "


def iceberg_schema(shape: TableShape, keys: Sequence[str]) -> dict[str, Any]:
    """Return the table's schema in Iceberg's JSON form.

    It has the source's columns, then the technical ones; the key is required.
    """
    identifiers = Identifiers()
    fields = [
        {
            "id": identifiers.take(),
            "name": c.name,
            "required": c.name in keys,
            "type": identifiers.number(c.type.iceberg),
            **_doc(c),
        }
        for c in shape.columns
    ]
    fields += [
        {"id": identifiers.take(), "name": name, "required": False, "type": TECHNICAL_TYPES[name]} for name in TECHNICAL
    ]
    identifier = identifies(shape.columns, keys)
    key_ids = [field["id"] for field in fields if field["name"] in identifier]
    return {"type": "struct", "schema-id": 0, "identifier-field-ids": key_ids, "fields": fields}


def identifies(columns: Sequence[SourceColumn], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that Iceberg is told to be the identifier: the key, or none where a type of it can't be.

    The table's properties say what the key is in any case.
    """
    types = {column.name: column.type.iceberg for column in columns}
    usable = all(isinstance(types[key], str) and types[key] not in ("float", "double") for key in keys)
    return tuple(keys) if usable else ()


def _doc(column: SourceColumn) -> dict[str, str]:
    return {"doc": f"{INEXACT}{column.type.lost}"} if column.type.lost else {}


def steps(table: LakeTable, found: Sequence[Change], columns: Sequence[SourceColumn]) -> list[Callable[[Any], Any]]:
    """Return these changes as steps of :meth:`pipelines.lake.table.LakeTable.alter`.

    ``columns``: what the table is to have. What is dropped goes first; then new names, by way of names that nothing
    has; then types and new columns.
    """
    renames = [(change.column, change.to) for change in found if change.kind == "rename"]
    temporary = {old: f"__renamed_{index}" for index, (old, _) in enumerate(renames)}
    identifiers = Identifiers()
    docs = {column.name: _doc(column) for column in columns}
    fresh = [
        {"id": identifiers.take(), "name": c.column, "required": False, "type": identifiers.number(c.to)}
        | docs.get(c.column, {})
        for c in found
        if c.kind in ("add", "replace")
    ]

    def drop(update: Any) -> Any:
        for change in found:
            if change.kind == "drop":
                update = update.deleteColumn(change.column)
        return update

    def put_aside(update: Any) -> Any:
        for old, _ in renames:
            update = update.renameColumn(old, temporary[old])
        return update

    def rename(update: Any) -> Any:
        for old, new in renames:
            update = update.renameColumn(temporary[old], new)
        return update

    def retype(update: Any) -> Any:
        for change in found:
            if change.kind == "widen":
                kind = table.jvm.org.apache.iceberg.types.Types.fromPrimitiveString(change.to)
                update = update.updateColumn(change.column, kind)
            elif change.kind == "replace":
                update = update.deleteColumn(change.column)
        return update

    add = union_of(table, {"type": "struct", "schema-id": 0, "fields": fresh})
    return [drop, put_aside, rename, retype, *([add] if fresh else [])] if found else []


def union_of(table: LakeTable, schema: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the step that gives a table what ``schema`` has beyond it, also within structs.

    ``schema``: in Iceberg's JSON form.
    """
    parsed = table.jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps(schema))
    return lambda update: update.unionByNameWith(parsed)


def set_key(update: Any, was: Sequence[str], keys: Sequence[str]) -> Any:
    """Make the columns ``keys`` Iceberg's identifier, and required; those that ``was`` it before may be null."""
    update = update.allowIncompatibleChanges().setIdentifierFields(list(keys))
    for key in was:
        update = update.makeColumnOptional(key)
    for key in keys:
        update = update.requireColumn(key)
    return update


class Identifiers:
    """Field ids, each used once."""

    def __init__(self) -> None:
        self._last = 0

    def take(self) -> int:
        """Return the next id."""
        self._last += 1
        return self._last

    def number(self, kind: Any) -> Any:
        """Return a type in Iceberg's JSON form with ids for all that is within it."""
        if not isinstance(kind, dict):
            return kind
        if kind["type"] == "struct":
            fields = [{**field, "id": self.take()} for field in kind["fields"]]
            return {**kind, "fields": [{**field, "type": self.number(field["type"])} for field in fields]}
        if kind["type"] == "map":
            key, value = self.take(), self.take()
            return {**kind, "key-id": key, "value-id": value, "value": self.number(kind["value"])}
        return {**kind, "element-id": self.take(), "element": self.number(kind["element"])}
