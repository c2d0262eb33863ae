"""Evolve: make the table fit the changes: create it, and have it follow the source's columns.

What the table's columns are of the source's is in its properties, and so is the history of its changes. They change in
the same commit as the schema.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.failpoints import failpoint
from pipelines.lake import iceberg_schema as alter
from pipelines.lake import partitioning as arrange
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.merge.fold import TECHNICAL
from pipelines.merge.statement import commit
from pipelines.protection.columns import Protected, source_types
from pipelines.schema.plan import Applied, Change, Target, changes, target, with_missing
from pipelines.schema.policy import FREEZE, clashes, restrained
from pipelines.sources.debezium.envelope import TableShape
from pipelines.sources.postgres.schema_log import TableVersions
from pipelines.sources.postgres.types import default_sql, printed
from pipelines.specs.load import SchemaPolicy
from pipelines.sql import quote

KEY_COLUMNS = "lakehouse.key-columns"
# The source's table, its column numbers as JSON (attnum to the lake's name), and the log position of that schema.
RELATION, ATTRIBUTES, SCHEMA_LSN = "lakehouse.relation", "lakehouse.attributes", "lakehouse.schema-lsn"
HISTORY = "lakehouse.schema-history"
BACKFILL = "lakehouse.backfill"
# Columns that the table's policy keeps from following the source's, as JSON: the source's name to what isn't followed.
WITHHELD = "lakehouse.withheld"


def lake_namespace(source: str, schema: str) -> str:
    """The lake namespace of a source schema: ``<source>`` for ``public``, else ``<source>_<schema>``."""
    return source if schema == "public" else f"{source}_{schema}"


def create_table(
    lake: Lake, source: str, shape: TableShape, keys: Sequence[str], protected: Protected | None = None
) -> LakeTable:
    """Create the mirror of a source table, with the columns of ``shape``, which has the source's types."""
    protected = protected or Protected()
    clash = set(shape.column_names) & set(TECHNICAL)
    if clash:
        raise StopPipeline(
            f"{shape.topic} has the column {sorted(clash)[0]}, a name which the lake uses itself: rename it in the"
            " source, or leave the table out of the publication"
        )
    return lake.create(
        lake_namespace(source, shape.schema_name),
        shape.table_name,
        alter.iceberg_schema(protected.shape(shape), keys),
        {
            "lakehouse.source": source,
            "lakehouse.source-schema": shape.schema_name,
            "lakehouse.source-table": shape.table_name,
            "lakehouse.topic": shape.topic,
            KEY_COLUMNS: json.dumps(list(keys)),
            **protected.properties({}, {column.name: column.type.iceberg for column in shape.columns}),
        },
    )


def is_keyed(table: LakeTable) -> bool:
    """Whether the table has a key."""
    return bool(json.loads(table.properties[KEY_COLUMNS]))


def relation(table: LakeTable) -> int | None:
    """The source's table (its oid), if that is known."""
    found = table.properties.get(RELATION)
    return None if found is None else int(found)


def applied(table: LakeTable, versions: TableVersions) -> Applied:
    """What the table has now, with the source's types. Where it doesn't say which of the source's columns its own are,
    the names tell.
    """
    properties = table.properties
    types = {name: kind for name, kind in table.column_types.items() if name not in TECHNICAL}
    types = source_types(properties, types)
    keys = tuple(json.loads(properties[KEY_COLUMNS]))
    newest = versions.newest
    fixed = arrange.fixed_columns(table)
    if newest is None:
        return Applied(types, keys, fixed=fixed)
    if properties.get(RELATION) == str(newest.relation):
        attributes = {int(number): name for number, name in json.loads(properties[ATTRIBUTES]).items()}
        return Applied(types, keys, attributes, versions.at(int(properties[SCHEMA_LSN])), fixed)
    if relation(table) is not None:
        # Another table had the name: none of its columns is one of this table's, but those that can't go serve again.
        again = {newest.by_name[name].number: name for name in fixed & newest.by_name.keys()}
        gone = {-i: name for i, name in enumerate(types, 1) if name not in again.values()}
        return Applied(types, keys, {**gone, **again}, fixed=fixed)
    named = next((v for v in reversed(versions.versions) if types.keys() <= v.by_name.keys()), newest)
    # What no version names has a number that no column has: it is dropped.
    numbers = (named.by_name[name].number if name in named.by_name else -i for i, name in enumerate(types, 1))
    return Applied(types, keys, dict(zip(numbers, types, strict=True)), named, fixed)


def check_frozen(table: LakeTable, wanted: Target) -> None:
    """Raise StopPipeline where the table's spec freezes a change, or keeps a column of a name that another one has."""
    frozen = [f"the spec freezes the {w.kind} of {w.column}" for w in wanted.withheld if w.word == FREEZE]
    twice = [f"two columns would be called {name}, one of which the spec keeps" for name in clashes(wanted)]
    _refuse(table, [*frozen, *twice])


def fit(
    lake: Lake, table: LakeTable, wanted: Target, versions: TableVersions, shape: TableShape | None,
    protected: Protected | None = None,
) -> list[Change]:  # fmt: skip
    """Give the table the columns of ``wanted``, in one commit, and say what was changed.

    Raise StopPipeline where that can't be done, before anything is changed: the message says what differs, what to do.
    ``shape``: of the newest events, which tells of defaults where the source has no schema log.
    """
    has = applied(table, versions)
    found = with_missing(changes(has, wanted), wanted, versions)
    renamed = {c.column: c.to for c in found if c.kind == "rename"}
    differences = _impossible(has, wanted, found, versions, shape)
    if sorted(renamed.get(key, key) for key in has.keys) != sorted(wanted.keys):
        differences.append(f"the key is {list(has.keys)} in the lake and {list(wanted.keys)} in the source")
    _refuse(table, differences)
    protected = protected or Protected()
    version, said = wanted.version, _protections(table, wanted, found, protected)
    if not found and not said and (version is None or table.properties.get(SCHEMA_LSN) == str(version.lsn)):
        return []
    told = protected.told(found)
    properties = {**_columns(table, wanted, versions, found, protected), **said, **_version(table, wanted, told)}
    failpoint("before-alter")
    table.alter(alter.steps(lake.jvm, protected.changes(found), wanted.columns), properties)
    return told


def rekey(
    lake: Lake, session: SparkSession, table: LakeTable, versions: TableVersions, policy: SchemaPolicy,
    resyncing: bool = False, protected: Protected | None = None,
) -> list[Change]:  # fmt: skip
    """Give the table the columns and the key of the newest of ``versions``, and say what was changed. The key may have
    the same columns as before, of other names or types.

    The table holds everything from before that version. Repeatable after a crash: the version is written down last.
    ``resyncing``: the source's rows are being read again, so that rows whose new key nobody knows may go. Raises
    StopPipeline.
    """
    has, newest = applied(table, versions), versions.newest
    assert newest is not None
    same = has.version is not None and has.version.key_numbers == newest.key_numbers
    wanted = restrained(has, replace(target(None, (), versions, has), keys=newest.key), policy)
    check_frozen(table, wanted)
    found = with_missing(changes(has, wanted), wanted, versions)
    differences = _impossible(has, wanted, found, versions, None)
    differences += [f"the key column {key} has a type which the lake can't hold" for key in wanted.keys
                    if key not in wanted.types]  # fmt: skip
    differences += ["the spec freezes the key"] if policy.key == FREEZE and not same else []
    _refuse(table, differences)
    protected = protected or Protected()
    protected.check(wanted.columns, wanted.keys)
    said = _protections(table, wanted, found, protected)
    free = partial(alter.set_key, was=[key for key in has.keys if key in table.column_types], keys=())
    steps = alter.steps(lake.jvm, protected.changes(found), wanted.columns)
    table.alter([free, *steps], {**_columns(table, wanted, versions, found, protected), **said})
    backfill(session, table)
    failpoint("amid-rekey")
    _drop_unkeyed(session, table, wanted.keys, resyncing)
    rekeyed = Change("rekey", ", ".join(has.keys) or "nothing", ", ".join(wanted.keys) or "nothing")
    told = [*protected.told(found), *([] if same else [rekeyed])]
    # A file from before a column was added can't be read where the column is required.
    identifier = alter.identifies(wanted.columns, wanted.keys) if set(wanted.keys) <= table.first_columns else ()
    table.alter([partial(alter.set_key, was=(), keys=identifier)], _version(table, wanted, told))
    return told


def backfill(session: SparkSession, table: LakeTable) -> None:
    """Write the values that older rows show in columns which were added with a default, if that is still to be done.

    Repeatable: only rows from before the column are touched.
    """
    if BACKFILL not in table.properties:
        return
    failpoint("before-backfill")
    for column, late in json.loads(table.properties[BACKFILL]).items():
        if late["value"] is not None and column in table.column_types:
            name = quote(column)
            statement = f"UPDATE {table.sql_name} SET {name} = {late['value']} WHERE _lsn < {late['before_lsn']:d}"
            commit(session, f"{statement} AND {name} IS NULL", {"lakehouse.backfill": column})
    failpoint("after-backfill")
    table.set_properties({}, remove=[BACKFILL])


def _protections(table: LakeTable, wanted: Target, found: Sequence[Change], protected: Protected) -> dict[str, str]:
    """Properties: how its columns are protected. Raises StopPipeline where older rows have one otherwise."""
    renamed = {c.to: c.column for c in found if c.kind == "rename"}
    fresh = {c.column for c in found if c.kind in ("add", "replace")}
    kept = {name: renamed.get(name, name) for name in wanted.types if name not in fresh}
    protected.check_same(table.sql_name, table.properties, kept)
    return protected.properties(table.properties, wanted.types)


def _columns(
    table: LakeTable, wanted: Target, versions: TableVersions, found: Sequence[Change], protected: Protected
) -> dict[str, str]:
    """Properties: what the columns are of the source's, and the values that older rows still have to get."""
    properties = {}
    if wanted.version is not None:
        properties[RELATION] = str(wanted.version.relation)
        properties[ATTRIBUTES] = json.dumps({str(number): name for number, name in (wanted.attributes or {}).items()})
    late = {c.column: _late(c, wanted, versions, protected) for c in found if c.missing}
    if late:
        properties[BACKFILL] = json.dumps({**json.loads(table.properties.get(BACKFILL, "{}")), **late})
    return properties


def _version(table: LakeTable, wanted: Target, done: Sequence[Change]) -> dict[str, str]:
    """Properties: the key, the version that the table follows now, and what was done for it."""
    properties, version = {KEY_COLUMNS: json.dumps(list(wanted.keys))}, wanted.version
    if version is not None:
        properties[SCHEMA_LSN] = str(version.lsn)
    withheld = json.dumps({w.column: str(w) for w in wanted.withheld})
    told = [str(change) for change in done]
    if withheld != table.properties.get(WITHHELD, "{}"):
        properties[WITHHELD] = withheld
        told += [str(w) for w in wanted.withheld]
    if told:
        said = {"lsn": version and version.lsn, "at": version and version.changed_at, "changes": told}
        properties[HISTORY] = json.dumps([*json.loads(table.properties.get(HISTORY, "[]")), said])
    return properties


def _drop_unkeyed(session: SparkSession, table: LakeTable, keys: Sequence[str], resyncing: bool) -> None:
    unkeyed = " OR ".join(f"{quote(key)} IS NULL" for key in keys) or "false"
    if session.table(table.sql_name).where(unkeyed).isEmpty():
        return
    if not resyncing:
        source = f"{table.properties['lakehouse.source-schema']}.{table.properties['lakehouse.source-table']}"
        raise StopPipeline(
            f"rows of {table.sql_name} have no value in {', '.join(keys)}, the key in the source now: they wait in"
            " dead letters (`lakehouse dlq list`), or the column is new and no event tells its values. Deal with the"
            f" letters, or run `lakehouse resync {source}`."
        )
    commit(session, f"DELETE FROM {table.sql_name} WHERE {unkeyed}", {"lakehouse.rekey": ", ".join(keys)})


def _late(change: Change, wanted: Target, versions: TableVersions, protected: Protected) -> dict[str, Any]:
    number = next(number for number, name in (wanted.attributes or {}).items() if name == change.column)
    first = versions.first_with(number)
    assert first is not None
    assert change.missing is not None
    value = protected.default(change.column, default_sql(*change.missing, change.to), change.to)
    return {"value": value, "before_lsn": first.lsn}


def _reread_since(has: Applied, versions: TableVersions) -> bool:
    """Whether the source's rows are read again for a change that the table hasn't followed."""
    since = has.version.lsn if has.version else 0
    return any(version.reread and version.lsn > since for version in versions.versions)


def _refuse(table: LakeTable, differences: Sequence[str]) -> None:
    if differences:
        raise StopPipeline(
            f"the source changed the schema of {table.sql_name} in a way that can't be followed:"
            f" {'; '.join(differences)}. Nothing of this batch was merged into it. Undo the change in the source, or"
            " let the table follow it (pipelines/specs), or drop it from the lake to have it mirrored anew from its"
            " topic (README, Trouble)."
        )


def _impossible(
    has: Applied, wanted: Target, found: Sequence[Change], versions: TableVersions, shape: TableShape | None
) -> list[str]:
    renamed = {c.column: c.to for c in found if c.kind == "rename"}
    differences = []
    reread = _reread_since(has, versions)
    for change in found:
        old = next((old for old, new in renamed.items() if new == change.column), change.column)
        if change.kind in ("drop", "replace") and old in has.fixed:
            differences.append(f"column {old} can't go, because the table is partitioned by it, or was")
        elif change.kind == "replace" and not (reread and wanted.keys and change.column not in wanted.keys):
            differences.append(f"column {old} is {has.types[old]} in the lake and {printed(change.to)} in the source")
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
