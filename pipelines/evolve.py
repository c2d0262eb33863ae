"""Evolve: make the table fit the changes: create it, and have it follow the source's columns.

What the table's columns are of the source's is in its properties, and so is the history of its changes. They change in
the same commit as the schema.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.fold import TECHNICAL
from pipelines.iceberg import Lake, LakeTable
from pipelines.identifiers import quote
from pipelines.merge import commit
from pipelines.schema_plan import Applied, Change, Target, changes, with_missing
from pipelines.sources.postgres.envelope import TableShape
from pipelines.sources.postgres.schema_log import TableVersions
from pipelines.sources.postgres.types import default_sql, printed

TECHNICAL_TYPES = {
    "_kafka_partition": "int", "_kafka_offset": "long", "_lsn": "long", "_committed_at": "timestamptz", "_op": "string",
}  # fmt: skip
KEY_COLUMNS = "lakehouse.key-columns"
# The source's table, its column numbers as JSON (attnum to the lake's name), and the log position of that schema.
RELATION, ATTRIBUTES, SCHEMA_LSN = "lakehouse.relation", "lakehouse.attributes", "lakehouse.schema-lsn"
HISTORY = "lakehouse.schema-history"
BACKFILL = "lakehouse.backfill"


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
    """Create the mirror of a source table, with the columns of ``shape``."""
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


def applied(table: LakeTable, versions: TableVersions) -> Applied:
    """What the table has now. Where it doesn't say which of the source's columns its own are, the names tell."""
    properties = table.properties
    types = {name: kind for name, kind in table.column_types.items() if name not in TECHNICAL}
    keys = tuple(json.loads(properties[KEY_COLUMNS]))
    newest = versions.newest
    if newest is None:
        return Applied(types, keys)
    if properties.get(RELATION) == str(newest.relation):
        attributes = {int(number): name for number, name in json.loads(properties[ATTRIBUTES]).items()}
        return Applied(types, keys, attributes, versions.at(int(properties[SCHEMA_LSN])))
    named = next((v for v in reversed(versions.versions) if types.keys() <= v.by_name.keys()), newest)
    # What no version names has a number that no column has: it is dropped.
    numbers = (named.by_name[name].number if name in named.by_name else -i for i, name in enumerate(types, 1))
    return Applied(types, keys, dict(zip(numbers, types, strict=True)), named)


def fit(
    lake: Lake, table: LakeTable, wanted: Target, versions: TableVersions, shape: TableShape | None
) -> list[Change]:
    """Give the table the columns of ``wanted``, in one commit, and say what was changed.

    Raise StopPipeline where that can't be done, before anything is changed: the message says what differs, what to do.
    ``shape``: of the newest events, which tells of defaults where the source has no schema log.
    """
    has = applied(table, versions)
    found = with_missing(changes(has, wanted), wanted, versions)
    differences = _impossible(has, wanted, found, versions, shape)
    if differences:
        raise StopPipeline(
            f"the source changed the schema of {table.sql_name} in a way that can't be followed:"
            f" {'; '.join(differences)}. Nothing of this batch was merged into it. Undo the change in the source, or"
            " drop the table from the lake to have it mirrored anew from its topic (README, Trouble)."
        )
    version = wanted.version
    if not found and (version is None or table.properties.get(SCHEMA_LSN) == str(version.lsn)):
        return []
    properties = {KEY_COLUMNS: json.dumps(list(wanted.keys))}
    if version is not None:
        properties[RELATION], properties[SCHEMA_LSN] = str(version.relation), str(version.lsn)
        properties[ATTRIBUTES] = json.dumps({str(number): name for number, name in (wanted.attributes or {}).items()})
    if found:
        said = {
            "lsn": version and version.lsn,
            "at": version and version.changed_at,
            "changes": [str(c) for c in found],
        }
        properties[HISTORY] = json.dumps([*json.loads(table.properties.get(HISTORY, "[]")), said])
    late = {c.column: _late(c, wanted, versions) for c in found if c.missing}
    if late:
        properties[BACKFILL] = json.dumps({**json.loads(table.properties.get(BACKFILL, "{}")), **late})
    table.alter(_steps(lake.jvm, found), properties)
    return found


def backfill(session: SparkSession, table: LakeTable) -> None:
    """Write the values that older rows show in columns which were added with a default, if that is still to be done.

    Repeatable: only rows from before the column are touched.
    """
    for column, late in json.loads(table.properties.get(BACKFILL, "{}")).items():
        if late["value"] is not None and column in table.column_types:
            name = quote(column)
            statement = f"UPDATE {table.sql_name} SET {name} = {late['value']} WHERE _lsn < {late['before_lsn']:d}"
            commit(session, f"{statement} AND {name} IS NULL", {"lakehouse.backfill": column})
    if BACKFILL in table.properties:
        table.set_properties({}, remove=[BACKFILL])


def _late(change: Change, wanted: Target, versions: TableVersions) -> dict[str, Any]:
    number = next(number for number, name in (wanted.attributes or {}).items() if name == change.column)
    first = versions.first_with(number)
    assert first is not None
    assert change.missing is not None
    return {"value": default_sql(*change.missing, change.to), "before_lsn": first.lsn}


def _impossible(
    has: Applied, wanted: Target, found: Sequence[Change], versions: TableVersions, shape: TableShape | None
) -> list[str]:
    renamed = {c.column: c.to for c in found if c.kind == "rename"}
    differences = []
    if sorted(renamed.get(key, key) for key in has.keys) != sorted(wanted.keys):
        differences.append(f"the key is {list(has.keys)} in the lake and {list(wanted.keys)} in the source")
    since = has.version.lsn if has.version else 0
    reread = any(version.reread and version.lsn > since for version in versions.versions)
    for change in found:
        if change.kind == "replace" and not (reread and wanted.keys and change.column not in wanted.keys):
            was = next((old for old, new in renamed.items() if new == change.column), change.column)
            differences.append(f"column {was} is {has.types[was]} in the lake and {printed(change.to)} in the source")
    if wanted.version is None and shape is not None:
        added = {change.column for change in found if change.kind == "add"}
        differences += [
            f"column {c.name} is new and has a default, which older rows show though no event says so"
            for c in shape.columns
            if c.name in added and c.has_default
        ]
    elif reread and not wanted.keys:
        differences.append("older rows have new values, and rows without a key can't be read again")
    return differences


def _steps(jvm: Any, found: Sequence[Change]) -> list[Callable[[Any], Any]]:
    """What is dropped goes first; then new names, by way of names that nothing has; then types and new columns."""
    renames = [(change.column, change.to) for change in found if change.kind == "rename"]
    aside = {old: f"__renamed_{index}" for index, (old, _) in enumerate(renames)}
    identifiers = _Identifiers()
    fresh = [
        {"id": identifiers.take(), "name": c.column, "required": False, "type": identifiers.number(c.to)}
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
            update = update.renameColumn(old, aside[old])
        return update

    def rename(update: Any) -> Any:
        for old, new in renames:
            update = update.renameColumn(aside[old], new)
        return update

    def retype(update: Any) -> Any:
        for change in found:
            if change.kind == "widen":
                kind = jvm.org.apache.iceberg.types.Types.fromPrimitiveString(change.to)
                update = update.updateColumn(change.column, kind)
            elif change.kind == "replace":
                update = update.deleteColumn(change.column)
        return update

    def add(update: Any) -> Any:
        schema = {"type": "struct", "schema-id": 0, "fields": fresh}
        return update.unionByNameWith(jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps(schema)))

    return [drop, put_aside, rename, retype, *([add] if fresh else [])] if found else []


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
