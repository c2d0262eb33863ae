"""The schema that a table has of its source, as its properties say."""

import json

from pipelines.lake.partitioning import fixed_columns
from pipelines.lake.properties import ATTRIBUTES, KEY_COLUMNS, RELATION, SCHEMA_POSITION
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import source_types
from pipelines.schema.plan import AppliedSchema
from pipelines.schema.technical import TECHNICAL
from pipelines.schema.versions import TableVersions


def is_keyed(table: LakeTable) -> bool:
    """Return whether the table has a key."""
    return bool(json.loads(table.properties[KEY_COLUMNS]))


def relation(table: LakeTable) -> int | None:
    """Return the source's table (its oid), if that is known."""
    found = table.properties.get(RELATION)
    return None if found is None else int(found)


def applied_schema(table: LakeTable, versions: TableVersions) -> AppliedSchema:
    """Return what the table has now, with the source's types.

    Where it doesn't say which of the source's columns its own are, the names tell.
    """
    properties = table.properties
    types = {name: kind for name, kind in table.column_types.items() if name not in TECHNICAL}
    types = source_types(properties, types)
    keys = tuple(json.loads(properties[KEY_COLUMNS]))
    newest = versions.newest
    fixed = fixed_columns(table)
    if newest is None:
        return AppliedSchema(types, keys, fixed=fixed)
    if properties.get(RELATION) == str(newest.relation):
        attributes = {int(number): name for number, name in json.loads(properties[ATTRIBUTES]).items()}
        return AppliedSchema(types, keys, attributes, versions.at(int(properties[SCHEMA_POSITION])), fixed)
    if relation(table) is not None:
        # Another table had the name: none of its columns is one of this table's, but those that can't go serve again.
        again = {newest.by_name[name].number: name for name in fixed & newest.by_name.keys()}
        gone = {-i: name for i, name in enumerate(types, 1) if name not in again.values()}
        return AppliedSchema(types, keys, {**gone, **again}, fixed=fixed)
    named = next((v for v in reversed(versions.versions) if types.keys() <= v.by_name.keys()), newest)
    # What no version names has a number that no column has: it is dropped.
    numbers = (named.by_name[name].number if name in named.by_name else -i for i, name in enumerate(types, 1))
    return AppliedSchema(types, keys, dict(zip(numbers, types, strict=True)), named, fixed)
