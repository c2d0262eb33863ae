"""Plan what has to change in a lake table so that it has the source's columns. Pure.

Where the source's schema log tells the columns' numbers (attnum), a rename is a rename, and a column that was dropped
and added again is another one. Without the log names are all there is: columns can only be added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.schema.lake_types import LakeType, is_promoted, plain_type, printed
from pipelines.schema.versions import Attribute, Default, TableVersions, Version

Kind = Literal["add", "drop", "rename", "widen", "replace", "rekey"]


@dataclass(frozen=True)
class AppliedSchema:
    """The schema that a lake table has.

    ``types``: its columns' printed types (without the technical ones); ``keys``: the key; ``attributes``: the source's
    column numbers if they are known; ``version``: the version of the schema log that it follows. ``fixed``: columns
    that can't be dropped.
    """

    types: Mapping[str, str]
    keys: tuple[str, ...]
    attributes: Mapping[int, str] | None = None
    version: Version | None = None
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WithheldChange:
    """A change that the table's policy keeps it from following.

    ``number``: the column's, ``column``: its name in the source (of a dropped one, its last), ``lake``: its name in the
    lake, None if it has none.
    """

    kind: str
    word: str
    number: int
    column: str
    lake: str | None

    def __str__(self) -> str:
        return f"{self.kind} of {self.column} not followed ({self.word})"


@dataclass(frozen=True)
class TargetSchema:
    """The schema that a table shall have.

    ``attributes`` and ``version`` are None where the schema log says nothing of the table. ``withheld``: what its
    policy keeps it from following.
    """

    columns: tuple[SourceColumn, ...]
    keys: tuple[str, ...]
    attributes: Mapping[int, str] | None = None
    version: Version | None = None
    withheld: tuple[WithheldChange, ...] = ()

    @property
    def types(self) -> dict[str, Any]:
        """Column name to Iceberg type in JSON form."""
        return {column.name: column.type.iceberg for column in self.columns}


@dataclass(frozen=True)
class Change:
    """One change of a table. ``to``: the new name, the new type (in JSON form) or the new key, by kind.

    ``missing``: of an added column, what older rows show in it.
    """

    kind: Kind
    column: str
    to: Any = None
    missing: Default | None = None

    def __str__(self) -> str:
        to = printed(self.to) if self.to is not None else ""
        link = {"rename": "to", "widen": "to", "replace": "by", "rekey": "to"}.get(self.kind, "")
        default = f"default {self.missing.text}" if self.missing else ""
        return " ".join(word for word in (self.kind, self.column, link, to, default) if word)


def target_schema(
    shape: TableShape | None, keys: tuple[str, ...], versions: TableVersions, applied: AppliedSchema | None
) -> TargetSchema:
    """Return what the table shall have: the newest version's columns, or without a log those of ``shape``.

    ``shape``: the newest that events have; None: there is none, and the log alone says it. ``keys``: by its names.
    """
    newest = versions.newest
    seen = version_of(shape, versions) if shape else None
    if newest is None or (shape and seen is None):
        return TargetSchema(shape.columns if shape else (), keys)
    columns, attributes = [], {}
    for attribute in newest.columns:
        kind = _type(attribute, shape, seen, applied)
        if kind is not None:
            columns.append(SourceColumn(attribute.name, None, kind))
            attributes[attribute.number] = attribute.name
    if shape and seen:
        # Where a key was renamed within the batch, its schema may be of another version than the row's.
        known = (seen, *reversed(versions.versions))
        numbers = (next((v.by_name[key].number for v in known if key in v.by_name), 0) for key in keys)
        named = tuple(attributes[number] for number in numbers if number in attributes)
    elif applied and applied.attributes:
        called = {name: number for number, name in applied.attributes.items()}
        named = tuple(attributes[called[key]] for key in applied.keys if called.get(key) in attributes)
    else:
        named = keys or (applied.keys if applied else newest.key)
    return TargetSchema(tuple(columns), named, attributes, newest)


def version_of(shape: TableShape, versions: TableVersions) -> Version | None:
    """Return the newest version whose columns have the names of ``shape``."""
    return next(iter(versions_of(shape, versions)[::-1]), None)


def versions_of(shape: TableShape, versions: TableVersions) -> tuple[Version, ...]:
    """Return the versions that ``shape`` may have been written under, oldest first.

    There is more than one if a schema came back. Names and types tell; names alone if the types of none agree. The
    connector leaves out columns of types that it doesn't know.
    """
    names = set(shape.column_names)
    named = tuple(
        version
        for version in versions.versions
        if names <= version.by_name.keys()
        and not any(version.by_name[name].lake_type for name in version.by_name.keys() - names)
    )
    return tuple(version for version in named if _agrees(shape, version)) or named


def _agrees(shape: TableShape, version: Version) -> bool:
    kinds = ((column, version.by_name[column.name].lake_type) for column in shape.columns)
    return all(kind is None or printed(kind.iceberg) == printed(column.type.iceberg) for column, kind in kinds)


def schema_changes(applied: AppliedSchema, target: TargetSchema) -> list[Change]:
    """Return the changes that bring a table to ``target``, in an order in which they can be made."""
    if target.attributes is None or applied.attributes is None:
        now = {name: name for name in applied.types if name in target.types}
        dropped: list[str] = []
    else:
        now = {target.attributes[n]: old for n, old in applied.attributes.items() if n in target.attributes}
        mine = set(applied.attributes.values())
        dropped = [name for number, name in applied.attributes.items() if number not in target.attributes]
        # What was added by its name alone, while the log had nothing of it, makes room for what the log says.
        dropped += [name for name in applied.types if name not in mine]
    found = [Change("drop", name) for name in dropped if name in applied.types]
    found += [Change("rename", old, name) for name, old in now.items() if name != old]
    for name, old in now.items():
        was, kind = applied.types[old], target.types[name]
        if was != printed(kind):
            found.append(Change("widen" if is_promoted(was, printed(kind)) else "replace", name, kind))
    found += [Change("add", name, kind) for name, kind in target.types.items() if name not in now]
    return found


def with_defaults(found: Sequence[Change], target: TargetSchema, versions: TableVersions) -> list[Change]:
    """Return ``found``, the added columns with what older rows show in them."""
    numbers = {name: number for number, name in (target.attributes or {}).items()}
    full = []
    for change in found:
        first = versions.first_with(numbers.get(change.column, 0)) if change.kind == "add" else None
        attribute = first.by_number[numbers[change.column]] if first else None
        full.append(Change(change.kind, change.column, change.to, attribute.missing if attribute else None))
    return full


def _type(
    attribute: Attribute, shape: TableShape | None, seen: Version | None, applied: AppliedSchema | None
) -> LakeType | None:
    """Return the lake's type of a column: as its events say, as the table has it, or as the source's type says.

    None: nothing here knows the type, and the column waits for its first event.
    """
    kind = attribute.kind
    same = seen.by_number.get(attribute.number) if seen else None
    if shape and same and same.kind == kind:
        # A column that the events haven't got is one that the lake has no type for.
        return next((column.type for column in shape.columns if column.name == same.name), None)
    before = applied.version.by_number.get(attribute.number) if applied and applied.version else None
    if applied and applied.attributes and before and before.kind == kind:
        name = applied.attributes.get(attribute.number, "")
        if name in applied.types:
            return plain_type(applied.types[name])
    return attribute.lake_type
