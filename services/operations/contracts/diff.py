"""Where a contract, the source and the lake don't say the same. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pipelines.sources.base.tables import DescribedColumn, DescribedTable
from quality import protection
from quality.contract import Column, Contract
from quality.errors import ContractError

# The standard's logical type to what Iceberg may call it; text holds what no other type of the lake can.
LAKE_TYPES = {
    "integer": ("int", "long", "string"), "number": ("int", "long", "float", "double", "decimal", "string"),
    "boolean": ("boolean",), "date": ("date", "string"), "time": ("time", "string"),
    "timestamp": ("timestamp", "timestamptz", "string"), "array": ("list",),
    "string": ("string", "uuid", "binary", "fixed", "boolean", "struct", "map"),
    "object": ("struct", "string"), "map": ("map", "string"), "vector": ("list",),
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """``breaking``: something that the contract promises isn't so; otherwise the contract only doesn't say it.

    ``where``: ``source`` or ``lake``; ``column``: None if it is the table's.
    """

    where: str
    column: str | None
    what: str
    breaking: bool

    def __str__(self) -> str:
        return f"{self.where}{f', {self.column}' if self.column else ''}: {self.what}"


def differences(
    contract: Contract, source: DescribedTable | None, lake: Mapping[str, str] | None,
    protected: Mapping[str, str] | None = None,
) -> Iterator[Difference]:  # fmt: skip
    """Yield where a contract, the source and the lake don't say the same.

    ``source``: None: it hasn't got the table; ``lake``: column to Iceberg type; None: there is no such table yet.
    ``protected``: how the lake's rows have columns that they don't have as the source has them.
    """
    if source is None:
        yield Difference("source", None, "there is no such table", breaking=True)
    else:
        yield from _source(contract, source)
    generated = {column.name for column in source.columns if column.generated} if source else ()
    yield from own_differences(contract, lake, protected, generated)


def own_differences(
    contract: Contract, lake: Mapping[str, str] | None, protected: Mapping[str, str] | None = None,
    generated: Collection[str] = (),
) -> Iterator[Difference]:  # fmt: skip
    """Yield where a contract and the lake's table, if there is one, don't say the same.

    That is all there is to compare of an event stream or a derived table.
    """
    if lake is None:
        yield Difference("lake", None, "there is no such table yet", breaking=False)
    else:
        yield from in_lake(contract, lake, generated, protected)


def in_lake(
    contract: Contract, lake: Mapping[str, str], generated: Collection[str] = (),
    protected: Mapping[str, str] | None = None,
) -> Iterator[Difference]:  # fmt: skip
    """Yield where a contract and the lake's table don't say the same.

    ``generated``: columns that the source computes; ``protected``: as for :func:`differences`.
    """
    how = protected or {}
    for column in contract.columns:
        kind = lake.get(column.name)
        if kind is None and column.name in generated:
            yield Difference("lake", column.name, "PostgreSQL doesn't publish generated columns", breaking=True)
        elif kind is None:
            yield Difference("lake", column.name, "there is no such column", breaking=True)
        elif column.protection != how.get(column.name):
            yield Difference("lake", column.name, _unprotected(contract, column, how.get(column.name)), breaking=True)
        elif column.protection not in (None, "drop"):
            if kind != "string":
                yield Difference("lake", column.name, f"it is {kind}, not the text that is protected", breaking=True)
        elif column.logical and not kind.startswith(LAKE_TYPES.get(column.logical, (kind,))):
            yield Difference("lake", column.name, f"it is {kind}, not {column.logical}", breaking=True)
    named = {column.name for column in contract.columns}
    for name in lake:
        if name not in named and name in how:
            yield Difference("lake", name, f"it is protected ({how[name]}), and the contract doesn't name it", True)
        elif name not in named and not name.startswith("_"):
            yield Difference("lake", name, "the contract doesn't name it", breaking=False)


def _source(contract: Contract, source: DescribedTable) -> Iterator[Difference]:
    for column in contract.columns:
        there = source.column(column.name)
        if there is None:
            yield Difference("source", column.name, "there is no such column", breaking=True)
        else:
            yield from _column(column, there)
    key = tuple(c.name for c in sorted(source.columns, key=lambda c: c.key) if c.key)
    if key != contract.key:
        said = f"the key is {_names(key)}, not {_names(contract.key)}"
        yield Difference("source", None, said, breaking=True)
    named = {column.name for column in contract.columns}
    for there in source.columns:
        if there.name not in named:
            yield Difference("source", there.name, f"the contract doesn't name it ({there.declared})", breaking=False)


def _column(column: Column, there: DescribedColumn) -> Iterator[Difference]:
    if column.physical and column.physical != there.declared:
        yield Difference("source", column.name, f"it is {there.declared}, not {column.physical}", breaking=True)
    elif column.logical and not column.physical and column.logical != there.logical:
        yield Difference("source", column.name, f"it is {there.logical}, not {column.logical}", breaking=True)
    try:
        protection.check(column.name, column.protection, bool(there.key), there.declared, None)
    except ContractError as error:
        yield Difference("source", column.name, f"{error}", breaking=True)
    if column.required and not there.required:
        # It may still hold for every row, which the rules see to.
        yield Difference("source", column.name, "it is required, and may be null there", breaking=False)
    if there.required and not column.required:
        yield Difference(
            "source", column.name, "it is never null there, which the contract doesn't say", breaking=False
        )
    if column.unique and not (there.unique or there.key):
        yield Difference("source", column.name, "it is unique, and nothing there sees to it", breaking=False)
    more = [label for label in there.labels if column.allowed and label not in column.allowed]
    if more:
        yield Difference("source", column.name, f"it may be {', '.join(more)} there, too", breaking=True)


def _unprotected(contract: Contract, column: Column, how: str | None) -> str:
    has, shall = how or "as in the source", column.protection or "as in the source"
    return f"its rows have it {has}, and it shall be {shall}: `lakehouse resync {contract.source_name}`"


def _names(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)})" if columns else "none"
