"""Apply a table's policy: which of the source's schema changes it follows, and what else becomes of rows. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipelines.schema.columns import SourceColumn
from pipelines.schema.lake_types import is_promoted, plain_type, printed
from pipelines.schema.plan import AppliedSchema, TargetSchema, WithheldChange
from pipelines.specs.load import SchemaPolicy

EVOLVE, FREEZE, DISCARD_ROW, DISCARD_VALUE = "evolve", "freeze", "discard_row", "discard_value"


def apply_policy(applied: AppliedSchema | None, target: TargetSchema, policy: SchemaPolicy) -> TargetSchema:
    """Return ``target`` without the changes that ``policy`` withholds; these are listed in its ``withheld``.

    A column that would be added isn't, one that was dropped stays, one that was renamed keeps its name, and one of
    another type its type. Where the source has no schema log, nothing is withheld.
    """
    if applied is None or applied.attributes is None or target.attributes is None:
        return target
    by_name = {column.name: column for column in target.columns}
    columns = {number: by_name[name] for number, name in target.attributes.items()}
    withheld = tuple(w for w in _changes(applied, columns, policy) if w.word != EVOLVE)
    for change in withheld:
        if change.lake is None:
            del columns[change.number]
        elif change.kind == "rename":
            columns[change.number] = replace(columns[change.number], name=change.lake)
        else:
            was = SourceColumn(change.lake, None, plain_type(applied.types[applied.attributes[change.number]]))
            columns[change.number] = was
    keys = {number: name for number, name in target.attributes.items() if name in target.keys}
    return replace(
        target,
        columns=tuple(columns.values()),
        keys=tuple(columns[number].name if number in columns else name for number, name in keys.items()),
        attributes={number: column.name for number, column in columns.items()},
        withheld=withheld,
    )


def clashes(target: TargetSchema) -> list[str]:
    """Return the names that two columns would have, because one of them keeps it."""
    names = [column.name for column in target.columns]
    return sorted({name for name in names if names.count(name) > 1})


def _changes(
    applied: AppliedSchema, columns: Mapping[int, SourceColumn], policy: SchemaPolicy
) -> Iterator[WithheldChange]:
    """Yield every change with the word that the policy has for it. A column's name is dealt with before its type."""
    assert applied.attributes is not None
    for number, column in columns.items():
        old = applied.attributes.get(number)
        if old is None:
            yield WithheldChange("add", policy.add, number, column.name, None)
            continue
        lake_name = old if policy.rename != EVOLVE else column.name
        if old != column.name:
            yield WithheldChange("rename", policy.rename, number, column.name, old)
        was, kind = applied.types[old], printed(column.type.iceberg)
        if was != kind:
            how = ("widen", policy.widen) if is_promoted(was, kind) else ("change", policy.change)
            yield WithheldChange(*how, number, column.name, lake_name)
    for number, old in applied.attributes.items():
        if number not in columns and old in applied.types:
            fixed = old in applied.fixed and policy.drop == EVOLVE
            yield WithheldChange("drop", DISCARD_VALUE if fixed else policy.drop, number, old, old)
