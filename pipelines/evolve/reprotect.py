"""Change how columns are protected, where a table's contract says otherwise than its rows have it.

Values of two kinds are never mixed in one column. What is to be dropped is emptied at once. Anything else waits for a
resync: then the column is emptied and becomes what it shall be, and every row of the source is read again. Older
snapshots have what they had until they expire.
"""

from dataclasses import replace

from pipelines.errors import StopPipeline
from pipelines.evolve.applied import applied_schema
from pipelines.lake.iceberg_schema import INEXACT, steps
from pipelines.lake.partitioning import fixed_columns
from pipelines.lake.properties import SOURCE_SCHEMA, SOURCE_TABLE
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Ledger
from pipelines.ledger.resyncs import Resync
from pipelines.protection.columns import ColumnProtection, ProtectedColumns, column_protections, protection_property
from pipelines.schema.columns import SourceColumn
from pipelines.schema.lake_types import plain_type
from pipelines.schema.plan import AppliedSchema, Change, TargetSchema, target_schema
from pipelines.schema.policy import apply_policy
from pipelines.schema.versions import TableVersions
from pipelines.specs.load import SchemaPolicy


class Reprotection:
    """The protection of one table's columns, kept as its contract says."""

    def __init__(self, protected: ProtectedColumns, policy: SchemaPolicy) -> None:
        self._protected, self._policy = protected, policy
        # The schema of the table that was found to be as the contract says.
        self._checked_schema: tuple[str, int] | None = None

    def apply(self, table: LakeTable, versions: TableVersions, resync: Resync | None, known: Ledger) -> list[str]:
        """Have the table's columns protected as the contract says, and return what was done. Raises StopPipeline."""
        if self._checked_schema == table.identity:
            return []
        has = applied_schema(table, versions)
        target = apply_policy(has, target_schema(None, (), versions, has), self._policy)
        self._protected.check(target.columns, target.keys)
        called = _contract_names(has, target)
        was = column_protections(table.properties)
        entry = {old: self._protected.entry(name, has.types[old]) for old, name in called.items()}
        wrong = {old: shall for old, shall in entry.items() if not _is_same(was.get(old), shall)}
        if wrong:
            if resync is None or not _lies_ahead(resync, known):
                wait = [old for old, entry in wrong.items() if entry is None or entry.how != "drop"]
                _refuse(table, wait, was, wrong)
            self._replace(table, has, called, entry, list(wrong))
        self._checked_schema = table.identity
        return [f"protect {old} ({entry.how if entry else 'no more'})" for old, entry in wrong.items()]

    def _replace(
        self, table: LakeTable, has: AppliedSchema, called: dict[str, str],
        entry: dict[str, ColumnProtection | None], wrong: list[str],
    ) -> None:  # fmt: skip
        stuck = sorted(set(wrong) & fixed_columns(table))
        if stuck:
            raise StopPipeline(
                f"{', '.join(stuck)} of {table.sql_name} can't be protected anew, because the table is partitioned by"
                " it, or was: drop the table from the lake to have it mirrored anew"
                " (infra/runbooks/protection-changed.md)."
            )
        comments, changes, columns = table.comments, [], []
        for old in wrong:
            (change,) = self._protected.changes([Change("replace", called[old], has.types[old])])
            changes.append(replace(change, column=old))
            kind = replace(plain_type(has.types[old]), lost=_lost(comments[old]))
            columns.append(SourceColumn(old, None, kind))
        table.alter(steps(table, changes, columns), protection_property(table.properties, entry))


def _contract_names(has: AppliedSchema, target: TargetSchema) -> dict[str, str]:
    """Return the lake's columns that stay, with what the contract calls them."""
    if target.attributes is None or has.attributes is None:
        return {name: name for name in has.types}
    numbers = target.attributes
    return {name: numbers[n] for n, name in has.attributes.items() if n in numbers and name in has.types}


def _lies_ahead(resync: Resync, known: Ledger) -> bool:
    """Return whether a table with this ledger has nothing yet of what the resync reads again."""
    return known.resync != resync.id and all(known.positions.get(p, 0) <= start for p, start in resync.start.items())


def _is_same(was: ColumnProtection | None, wanted: ColumnProtection | None) -> bool:
    return was is None if wanted is None else wanted.same(was)


def _lost(comment: str | None) -> str | None:
    return (comment or "").partition(INEXACT)[2] or None


def _refuse(
    table: LakeTable, wait: list[str], was: dict[str, ColumnProtection], wrong: dict[str, ColumnProtection | None]
) -> None:
    if not wait:
        return
    source = f"{table.properties[SOURCE_SCHEMA]}.{table.properties[SOURCE_TABLE]}"
    raise StopPipeline(
        f"the contract of {source} protects columns otherwise than rows of {table.sql_name} have them:"
        f" {'; '.join(_difference(old, was.get(old), wrong[old]) for old in wait)}. Nothing was merged."
        f" Run `lakehouse resync {source}`: the columns are emptied, and every row is read again. Or put the contract"
        " back as it was (infra/runbooks/protection-changed.md)."
    )


def _difference(name: str, was: ColumnProtection | None, wanted: ColumnProtection | None) -> str:
    if was is not None and wanted is not None and was.how == wanted.how:
        return f"{name} ({was.how}) by another key, or under another name"
    has, shall = (entry.how if entry is not None else "as in the source" for entry in (was, wanted))
    return f"{name} is there {has}, and shall be {shall}"
