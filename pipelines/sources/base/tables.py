"""Tables of a source, as services see them: columns, keys and ranges of keys. Pure."""

from dataclasses import dataclass

# A text for each column of a key, as a source's session gives it.
Key = tuple[str, ...]


@dataclass(frozen=True)
class KeyRange:
    """Keys after ``after``, up to and including ``upto``; None: no bound on that side."""

    after: Key | None = None
    upto: Key | None = None


EVERY_KEY = KeyRange()


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    ``declared``: its type as in its DDL; ``base``: the source's name for that type, of the elements if ``is_array``.
    ``duckdb_type``: the DuckDB type that holds every finite value of it exactly; None: there is none. ``left_out``: why
    it can't be in the lake; None: it can. ``excluded``: a person has excluded it from capture.
    """

    name: str
    declared: str
    base: str
    duckdb_type: str | None
    is_array: bool = False
    is_enum: bool = False
    generated: bool = False
    left_out: str | None = None
    excluded: bool = False


@dataclass(frozen=True)
class SourceTable:
    """A captured table as the source has it now. ``key``: its primary key's columns, in order.

    ``partitioned``: its rows are those of its partitions, where otherwise tables that inherit from it have their own.
    """

    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    partitioned: bool = False

    @property
    def full_name(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class DescribedColumn:
    """What the source says of a column that a contract could promise.

    ``declared``: the type as the source prints it; ``logical``: the contract standard's name for the kind of values;
    ``key``: the place in the primary key, from 1, or 0; ``labels``: the values of an enum.
    """

    name: str
    declared: str
    logical: str
    required: bool
    unique: bool
    key: int
    labels: tuple[str, ...] = ()
    comment: str | None = None
    generated: bool = False


@dataclass(frozen=True)
class DescribedTable:
    """What the source says of a table that a contract could promise.

    ``checks``: name to condition, as the source prints it.
    """

    schema: str
    name: str
    columns: tuple[DescribedColumn, ...]
    comment: str | None
    checks: tuple[tuple[str, str], ...] = ()

    def column(self, name: str) -> DescribedColumn | None:
        """Return a column, if there is one of the name."""
        return next((column for column in self.columns if column.name == name), None)
