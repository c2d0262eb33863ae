"""Change a table's key, or the way it is written, at one position of the source's log.

The way it is written changes when a column of the key has another type or name. Before that position a row's events
come under its old key, after it under the new one, and on whatever partitions the two fall. So what is older goes in
first, from all partitions, under the old key; then the table's key is changed; then the rest goes in. A change of the
key waits for every other transaction of the table: whatever is older was committed before it, and is in Kafka before
the schema log tells of the change. See infra/decisions/021-key-changes.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from pipelines.errors import PipelineError, StopPipeline
from pipelines.evolve.applied import applied_schema, relation
from pipelines.evolve.backfill import backfill
from pipelines.evolve.fit import (
    check_frozen,
    column_properties,
    impossible_changes,
    protection_properties,
    refuse,
    version_properties,
)
from pipelines.failpoints import failpoint
from pipelines.lake.commit import commit
from pipelines.lake.iceberg_schema import identifies, set_key, steps
from pipelines.lake.properties import SOURCE_SCHEMA, SOURCE_TABLE
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.plan import Change, schema_changes, target_schema, with_defaults
from pipelines.schema.policy import FREEZE, apply_policy
from pipelines.schema.versions import TableVersions, Version
from pipelines.specs.load import SchemaPolicy
from pipelines.sql import quote


class KeyChanged(PipelineError):
    """The schema log tells of a change of the key, or of another table of the name, that hasn't been followed yet."""


def is_other_table(table: LakeTable | None, versions: TableVersions) -> bool:
    """Return whether another table had the name before, and the lake's may still be that one's."""
    if versions.replaced_at is None or not versions.versions:
        return False
    return table is None or relation(table) not in (None, versions.versions[0].relation)


def has_news(versions: TableVersions, followed: TableVersions) -> bool:
    """Return whether ``versions`` tell of anything to follow that ``followed`` didn't.

    A table that isn't in the lake yet can't be asked what it has followed.
    """
    return (versions.key_changes, versions.replaced_at) != (followed.key_changes, followed.replaced_at)


def due_key_changes(table: LakeTable | None, versions: TableVersions) -> list[Version]:
    """Return the changes of the key that the table is yet to follow, oldest first."""
    if not versions.key_changes:
        return []
    has = applied_schema(table, versions).version if table is not None else None
    return [change for change in versions.key_changes if has is None or change.log_position > has.log_position]


def change_key(
    session: SparkSession, table: LakeTable, versions: TableVersions, policy: SchemaPolicy,
    resyncing: bool = False, protected: ProtectedColumns | None = None,
) -> list[Change]:  # fmt: skip
    """Give the table the columns and the key of the newest of ``versions``, and return what was changed.

    The key may have the same columns as before, of other names or types. The table holds everything from before that
    version. Repeatable after a crash: the version is written down last. ``resyncing``: the source's rows are being read
    again, so that rows whose new key nobody knows may be deleted. Raises StopPipeline.
    """
    has, newest = applied_schema(table, versions), versions.newest
    assert newest is not None
    same = has.version is not None and has.version.key_numbers == newest.key_numbers
    target = apply_policy(has, replace(target_schema(None, (), versions, has), keys=newest.key), policy)
    check_frozen(table, target)
    found = with_defaults(schema_changes(has, target), target, versions)
    differences = impossible_changes(has, target, found, versions, None, resyncing)
    differences += [f"the key column {key} has a type which the lake can't hold" for key in target.keys
                    if key not in target.types]  # fmt: skip
    differences += ["the spec freezes the key"] if policy.key == FREEZE and not same else []
    refuse(table, differences)
    protected = protected or ProtectedColumns()
    protected.check(target.columns, target.keys)
    protection = protection_properties(table, target, found, protected)
    free = partial(set_key, was=[key for key in has.keys if key in table.column_types], keys=())
    changes = steps(table, protected.changes(found), target.columns)
    table.alter([free, *changes], {**column_properties(table, target, versions, found, protected), **protection})
    backfill(session, table)
    failpoint("amid-rekey")
    _drop_unkeyed(session, table, target.keys, resyncing)
    rekeyed = Change("rekey", ", ".join(has.keys) or "nothing", ", ".join(target.keys) or "nothing")
    report = [*protected.hide_values(found), *([] if same else [rekeyed])]
    # A file from before a column was added can't be read where the column is required.
    identifier = identifies(target.columns, target.keys) if set(target.keys) <= table.first_columns else ()
    table.alter([partial(set_key, was=(), keys=identifier)], version_properties(table, target, report))
    return report


def _drop_unkeyed(session: SparkSession, table: LakeTable, keys: Sequence[str], resyncing: bool) -> None:
    unkeyed = " OR ".join(f"{quote(key)} IS NULL" for key in keys) or "false"
    if session.table(table.sql_name).where(unkeyed).isEmpty():
        return
    if not resyncing:
        source = f"{table.properties[SOURCE_SCHEMA]}.{table.properties[SOURCE_TABLE]}"
        raise StopPipeline(
            f"rows of {table.sql_name} have no value in {', '.join(keys)}, the key in the source now: they wait in"
            " dead letters (`lakehouse dlq list`), or the column is new and no event tells its values. Deal with the"
            f" letters, or run `lakehouse resync {source}` (infra/runbooks/schema-change.md)."
        )
    commit(session, f"DELETE FROM {table.sql_name} WHERE {unkeyed}", {"lakehouse.rekey": ", ".join(keys)})
