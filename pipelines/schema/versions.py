"""A table's columns through time, as its source wrote them down. Pure."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Attribute:
    """A column of one version. ``number``: PostgreSQL's attnum, which stays when the name changes.

    ``missing``: what rows from before the column show in it, as PostgreSQL prints it; None: null, or nobody knows.
    """

    number: int
    name: str
    type: str
    typmod: int
    declared: str
    missing: str | None = None


@dataclass(frozen=True)
class Version:
    """A table's columns from the log position ``lsn`` on. Generated columns aren't published, and aren't here.

    ``reread``: older rows have values that no event tells; their snapshot was asked for. A table that is gone has no
    columns.
    """

    lsn: int
    relation: int
    columns: tuple[Attribute, ...]
    key: tuple[str, ...]
    reread: bool
    changed_at: str

    @cached_property
    def by_number(self) -> dict[int, Attribute]:
        """Attnum to column."""
        return {column.number: column for column in self.columns}

    @cached_property
    def key_numbers(self) -> frozenset[int]:
        """The attnums of the key's columns."""
        return frozenset(column.number for column in self.columns if column.name in self.key)

    @cached_property
    def written_key(self) -> frozenset[tuple[int, str, str, int, str]]:
        """The key's columns as a record's key shows them: where any of this changes, so do the bytes of a row's key,
        and with them its partition.
        """
        key = (column for column in self.columns if column.name in self.key)
        return frozenset((c.number, c.name, c.type, c.typmod, c.declared) for c in key)

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        """Name to column."""
        return {column.name: column for column in self.columns}


@dataclass(frozen=True)
class TableVersions:
    """The versions of a table that now has this name, oldest first; empty: nothing was written down.

    ``replaced_at``: the log position from which on it is another table than the one that had the name before.
    """

    versions: tuple[Version, ...] = ()
    replaced_at: int | None = None

    @property
    def newest(self) -> Version | None:
        """The newest version."""
        return self.versions[-1] if self.versions else None

    def at(self, lsn: int | None) -> Version | None:
        """The version that began at ``lsn``."""
        return next((version for version in self.versions if version.lsn == lsn), None)

    @property
    def key_changes(self) -> tuple[Version, ...]:
        """The versions from which on rows have another key than in the version before, or the same one written in
        another way; oldest first.
        """
        pairs = zip(self.versions, self.versions[1:], strict=False)
        return tuple(after for before, after in pairs if before.written_key != after.written_key)

    def up_to(self, version: Version, included: bool) -> "TableVersions":
        """The table as it was known when ``version`` began, with it or without."""
        kept = tuple(v for v in self.versions if v.lsn < version.lsn or (included and v.lsn == version.lsn))
        return TableVersions(kept, self.replaced_at)

    def first_with(self, number: int) -> Version | None:
        """The first version that has the column."""
        return next((version for version in self.versions if number in version.by_number), None)


def table_versions(found: list[Version]) -> TableVersions:
    """The versions of the newest table among ``found``, and where it took another one's place."""
    ordered = sorted({version.lsn: version for version in found}.values(), key=lambda version: version.lsn)
    if not ordered:
        return TableVersions()
    relation = ordered[-1].relation
    mine = tuple(version for version in ordered if version.relation == relation and version.columns)
    return TableVersions(mine, max((version.lsn for version in ordered if version.relation != relation), default=None))
