"""The versions of a table's columns through time, as its source wrote them down. Pure."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipelines.schema.lake_types import LakeType, spark_type
from pipelines.sql import literal


@dataclass(frozen=True)
class Default:
    """The value that rows older than a column show in it.

    ``text``: as the source prints it; ``literal``: a text which a cast to the column's type reads; None: there is none.
    """

    text: str
    literal: str | None = None

    def sql(self, iceberg: Any) -> str | None:
        """Return the value in Spark's SQL, for a column of this Iceberg type; None: it can't be made."""
        if self.literal is None or isinstance(iceberg, dict):
            return None
        return f"CAST({literal(self.literal)} AS {spark_type(iceberg)})"


@dataclass(frozen=True)
class Attribute:
    """A column of one version of a table.

    ``number``: what the source numbers the column by, which stays when the name changes. ``type``, ``modifier``,
    ``declared``: its type in the source's words. ``missing``: what rows from before the column show in it; None: null,
    or nobody knows. ``lake_type``: its type in the lake by what the source says; None: only its events tell. ``base``:
    the type that its values are of, where ``type`` doesn't say it.
    """

    number: int
    name: str
    type: str
    modifier: int
    declared: str
    missing: Default | None = None
    lake_type: LakeType | None = field(default=None, compare=False)
    base: str | None = field(default=None, compare=False)

    @property
    def kind(self) -> tuple[str, int, str | None]:
        """What is equal where values are of one type in the source."""
        return self.type, self.modifier, self.base


@dataclass(frozen=True)
class Version:
    """A table's columns from the log position ``log_position`` on. Generated columns aren't published, and aren't here.

    ``reread``: older rows have values that no event tells; their snapshot was asked for. ``by_rows``: what events have
    as a key doesn't tell rows apart, and whole rows do. A table that is gone has no columns.
    """

    log_position: int
    relation: int
    columns: tuple[Attribute, ...]
    key: tuple[str, ...]
    reread: bool
    changed_at: str
    by_rows: bool = False

    @cached_property
    def by_number(self) -> dict[int, Attribute]:
        """Column number to column."""
        return {column.number: column for column in self.columns}

    @cached_property
    def key_numbers(self) -> frozenset[int]:
        """The numbers of the key's columns."""
        return frozenset(column.number for column in self.columns if column.name in self.key)

    @cached_property
    def written_key(self) -> frozenset[tuple[int, str, str, int, str]]:
        """The key's columns as a record's key shows them.

        Where any of this changes, so do the bytes of a row's key, and with them its partition.
        """
        key = (column for column in self.columns if column.name in self.key)
        return frozenset((c.number, c.name, c.type, c.modifier, c.declared) for c in key)

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        """Name to column."""
        return {column.name: column for column in self.columns}


@dataclass(frozen=True)
class TableVersions:
    """The versions of a table that now has this name, oldest first; empty: nothing was written down.

    ``replaced_at``: the log position from which on it is another table than the one that had the name before. ``gone``:
    the source hasn't the table any more, or doesn't publish it.
    """

    versions: tuple[Version, ...] = ()
    replaced_at: int | None = None
    gone: bool = False

    @property
    def newest(self) -> Version | None:
        """The newest version."""
        return self.versions[-1] if self.versions else None

    def at(self, log_position: int | None) -> Version | None:
        """Return the version that began at ``log_position``."""
        return next((version for version in self.versions if version.log_position == log_position), None)

    @property
    def key_changes(self) -> tuple[Version, ...]:
        """The versions that change the key or the way it is written, oldest first.

        From each on, rows have another key than in the version before, or the same one written in another way.
        """
        pairs = zip(self.versions, self.versions[1:], strict=False)
        return tuple(after for before, after in pairs if before.written_key != after.written_key)

    def up_to(self, version: Version, included: bool) -> "TableVersions":
        """Return the table as it was known when ``version`` began, with it or without."""
        versions = tuple(
            v
            for v in self.versions
            if v.log_position < version.log_position or (included and v.log_position == version.log_position)
        )
        return TableVersions(versions, self.replaced_at)

    @property
    def bases(self) -> tuple[tuple[str, str], ...]:
        """Types whose names don't say what their values are of, with the types that they are of."""
        return tuple(sorted({(c.type, c.base) for v in self.versions for c in v.columns if c.base is not None}))

    def first_with(self, number: int) -> Version | None:
        """Return the first version that has the column."""
        return next((version for version in self.versions if number in version.by_number), None)


def table_versions(found: list[Version]) -> TableVersions:
    """Return the versions of the newest table among ``found``, and where it took another one's place."""
    ordered = sorted(
        {version.log_position: version for version in found}.values(), key=lambda version: version.log_position
    )
    if not ordered:
        return TableVersions()
    relation = ordered[-1].relation
    mine = tuple(version for version in ordered if version.relation == relation and version.columns)
    replaced_at = max((version.log_position for version in ordered if version.relation != relation), default=None)
    return TableVersions(mine, replaced_at, gone=not ordered[-1].columns)
