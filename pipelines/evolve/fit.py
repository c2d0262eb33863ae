"""Give a table the columns of its source, in one commit."""

import json
from collections.abc import Sequence
from typing import Any

from pipelines.errors import StopPipeline
from pipelines.evolve.applied import applied_schema
from pipelines.failpoints import failpoint
from pipelines.lake.iceberg_schema import steps
from pipelines.lake.properties import (
    ATTRIBUTES,
    BACKFILL,
    KEY_COLUMNS,
    RELATION,
    SCHEMA_HISTORY,
    SCHEMA_POSITION,
    WITHHELD,
)
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.lake_types import printed
from pipelines.schema.plan import AppliedSchema, Change, TargetSchema, schema_changes, with_defaults
from pipelines.schema.policy import FREEZE, clashes
from pipelines.schema.versions import TableVersions


def check_frozen(table: LakeTable, target: TargetSchema) -> None:
    """Raise StopPipeline where the table's spec freezes a change, or keeps a column of a name that another one has."""
    frozen = [f"the spec freezes the {w.kind} of {w.column}" for w in target.withheld if w.word == FREEZE]
    twice = [f"two columns would be called {name}, one of which the spec keeps" for name in clashes(target)]
    refuse(table, [*frozen, *twice])


def fit_columns(
    table: LakeTable, target: TargetSchema, versions: TableVersions, shape: TableShape | None,
    protected: ProtectedColumns | None = None, resyncing: bool = False,
) -> list[Change]:  # fmt: skip
    """Give the table the columns of ``target``, in one commit, and return what was changed.

    Raise StopPipeline where that can't be done, before anything is changed: the message says what differs, what to do.
    ``shape``: of the newest events, which tells of defaults where the source has no schema log. ``resyncing``: the
    source's rows are being read again, whatever key they have.
    """
    has = applied_schema(table, versions)
    found = with_defaults(schema_changes(has, target), target, versions)
    renamed = {c.column: c.to for c in found if c.kind == "rename"}
    differences = impossible_changes(has, target, found, versions, shape, resyncing)
    if sorted(renamed.get(key, key) for key in has.keys) != sorted(target.keys):
        differences.append(f"the key is {list(has.keys)} in the lake and {list(target.keys)} in the source")
    refuse(table, differences)
    protected = protected or ProtectedColumns()
    version, protection = target.version, protection_properties(table, target, found, protected)
    if (
        not found
        and not protection
        and (version is None or table.properties.get(SCHEMA_POSITION) == str(version.log_position))
    ):
        return []
    report = protected.hide_values(found)
    properties = {
        **column_properties(table, target, versions, found, protected),
        **protection,
        **version_properties(table, target, report),
    }
    failpoint("before-alter")
    table.alter(steps(table, protected.changes(found), target.columns), properties)
    return report


def protection_properties(
    table: LakeTable, target: TargetSchema, found: Sequence[Change], protected: ProtectedColumns
) -> dict[str, str]:
    """Return the properties that say how columns are protected. Raises StopPipeline where older rows differ."""
    renamed = {c.to: c.column for c in found if c.kind == "rename"}
    fresh = {c.column for c in found if c.kind in ("add", "replace")}
    older = {name: renamed.get(name, name) for name in target.types if name not in fresh}
    protected.check_same(table.sql_name, table.properties, older)
    return protected.properties(table.properties, target.types)


def column_properties(
    table: LakeTable,
    target: TargetSchema,
    versions: TableVersions,
    found: Sequence[Change],
    protected: ProtectedColumns,
) -> dict[str, str]:
    """Return the properties that say which columns of the source the table has.

    With them, in ``BACKFILL``, the values that older rows still have to get.
    """
    properties = {}
    if target.version is not None:
        properties[RELATION] = str(target.version.relation)
        properties[ATTRIBUTES] = json.dumps({str(number): name for number, name in (target.attributes or {}).items()})
    late = {c.column: _late(c, target, versions, protected) for c in found if c.missing}
    if late:
        properties[BACKFILL] = json.dumps({**json.loads(table.properties.get(BACKFILL, "{}")), **late})
    return properties


def version_properties(table: LakeTable, target: TargetSchema, done: Sequence[Change]) -> dict[str, str]:
    """Return the properties that say which version the table follows now, its key, and what was changed for it."""
    properties, version = {KEY_COLUMNS: json.dumps(list(target.keys))}, target.version
    if version is not None:
        properties[SCHEMA_POSITION] = str(version.log_position)
    withheld = json.dumps({w.column: str(w) for w in target.withheld})
    descriptions = [str(change) for change in done]
    if withheld != table.properties.get(WITHHELD, "{}"):
        properties[WITHHELD] = withheld
        descriptions += [str(w) for w in target.withheld]
    if descriptions:
        entry = {"lsn": version and version.log_position, "at": version and version.changed_at, "changes": descriptions}
        properties[SCHEMA_HISTORY] = json.dumps([*json.loads(table.properties.get(SCHEMA_HISTORY, "[]")), entry])
    return properties


def _late(change: Change, target: TargetSchema, versions: TableVersions, protected: ProtectedColumns) -> dict[str, Any]:
    number = next(number for number, name in (target.attributes or {}).items() if name == change.column)
    first = versions.first_with(number)
    assert first is not None
    assert change.missing is not None
    value = protected.default(change.column, change.missing.sql(change.to), change.to)
    return {"value": value, "before_lsn": first.log_position}


def _reread_since(has: AppliedSchema, versions: TableVersions) -> bool:
    """Return whether the source's rows are read again for a change that the table hasn't followed."""
    since = has.version.log_position if has.version else 0
    return any(version.reread and version.log_position > since for version in versions.versions)


def refuse(table: LakeTable, differences: Sequence[str]) -> None:
    """Raise StopPipeline if there are differences that the table can't follow."""
    if differences:
        raise StopPipeline(
            f"the source changed the schema of {table.sql_name} in a way that can't be followed:"
            f" {'; '.join(differences)}. Nothing of this batch was merged into it. Undo the change in the source, or"
            " let the table follow it (pipelines/specs), or drop it from the lake to have it mirrored anew from its"
            " topic (infra/runbooks/schema-change.md)."
        )


def impossible_changes(
    has: AppliedSchema, target: TargetSchema, found: Sequence[Change], versions: TableVersions,
    shape: TableShape | None, resyncing: bool = False,
) -> list[str]:  # fmt: skip
    """List the changes that a table can't follow, each with the reason."""
    renamed = {c.column: c.to for c in found if c.kind == "rename"}
    differences = []
    reread = _reread_since(has, versions)
    for change in found:
        old = next((old for old, new in renamed.items() if new == change.column), change.column)
        if change.kind in ("drop", "replace") and old in has.fixed:
            differences.append(f"column {old} can't go, because the table is partitioned by it, or was")
        elif change.kind == "replace" and not (
            reread and (target.keys or resyncing) and change.column not in target.keys
        ):
            differences.append(f"column {old} is {has.types[old]} in the lake and {printed(change.to)} in the source")
    if target.version is None and shape is not None:
        added = {change.column for change in found if change.kind == "add"}
        differences += [
            f"column {c.name} is new and has a default, which older rows show though no event says so"
            for c in shape.columns
            if c.name in added and c.has_default
        ]
    elif reread and not target.keys and not resyncing:
        differences.append("its rows have no key and other values now, so that all are to be read again by a resync")
    return differences
