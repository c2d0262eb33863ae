"""Which columns of a table are compared, as what, and which are not and why. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.sources.base.tables import SourceTable, TableColumn
from quality.conditions import Dialect, conditions, kept
from quality.contract import Column, Contract
from services.stack.duckdb_sql import literal
from services.verify import hstore

_INTEGERS = {"SMALLINT", "INTEGER", "BIGINT"}
DUCKDB = Dialect(literal, "regexp_matches")
_MAY_NOT_FIT = ("DECIMAL", "DATE", "TIMESTAMP", "FLOAT", "DOUBLE")


@dataclass(frozen=True)
class ComparedColumn:
    """A column on both sides.

    ``kind``: the DuckDB type of the source's values; ``lake_kind`` that of the lake's. ``promised``: what its contract
    says of it, if it says that a value which breaks a promise is null in the lake.
    """

    source: TableColumn
    kind: str
    lake_kind: str
    promised: Column | None = None

    @property
    def name(self) -> str:
        """The column's name, the same on both sides."""
        return self.source.name

    @property
    def tail_kind(self) -> str:
        """The DuckDB type of values that come by the topic."""
        return self.lake_kind

    def arrived(self, value: str) -> str:
        """Return DuckDB's expression for a value of the topic; null where the lake's type can't hold it."""
        return f"TRY_CAST({value} AS {self.lake_kind})"

    def stored(self, value: str) -> str:
        """Return DuckDB's expression for a value of the lake, as it is compared."""
        return value

    def named(self, text: str) -> str:
        """Return DuckDB's expression for what is shown of a text that the type can't hold."""
        return text

    def parsed(self, text: str) -> str:
        """Return DuckDB's expression for the value of a canonical text; null where the type can't hold it."""
        if self.source.is_array:
            items = f"from_json({text}, '[\"VARCHAR\"]')"
            if self.kind == "BLOB[]":
                return f"list_transform({items}, lambda item: unhex(substr(item, 3)))"
            if self.kind.startswith(("DATE", "TIMESTAMP")):
                items = f"list_transform({items}, lambda item: {_christian('item')})"
            return items if self.kind == "VARCHAR[]" else f"TRY_CAST({items} AS {self.kind})"
        if self.kind == "BLOB":
            return f"unhex({text})"
        if self.kind.startswith(("DATE", "TIMESTAMP")):
            text = _christian(text)
        return text if self.kind == "VARCHAR" else f"TRY_CAST({text} AS {self.kind})"

    def unfit(self, text: str) -> str | None:
        """Return DuckDB's condition for "``kind`` can't hold this text"; None if it always can.

        Such are NaN in a numeric, and a list of lists.
        """
        if self.source.is_array:
            # A failed cast of a list nulls its elements, not the list.
            before = f"list_count(from_json({text}, '[\"VARCHAR\"]'))"
            return f"(starts_with({text}, '[[') OR {before} IS DISTINCT FROM list_count({self.parsed(text)}))"
        return f"({self.parsed(text)}) IS NULL" if self.kind.startswith(_MAY_NOT_FIT) else None

    def differs(self, source: str, lake: str) -> str:
        """Return DuckDB's expression for "these two aren't the same value".

        Null equals null, NaN equals NaN, 0 isn't -0.
        """
        if self.kind in ("FLOAT[]", "DOUBLE[]"):
            return f"CAST({source} AS VARCHAR) IS DISTINCT FROM CAST({lake} AS VARCHAR)"
        if self.source.base == "hstore":
            return f"({hstore.pairs(source)}) IS DISTINCT FROM ({hstore.pairs(lake)})"
        plain = f"{source} IS DISTINCT FROM {lake}"
        if self.promised is not None:
            plain = f"({plain} AND ({lake} IS NOT NULL OR ({self.kept(source)}) IS NOT NULL))"
        if self.kind in ("FLOAT", "DOUBLE"):
            return f"({plain} OR ({source} = 0 AND signbit({source}) <> signbit({lake})))"
        return plain

    def grouped(self, value: str) -> str:
        """Return an expression that is equal for equal values only, to group by."""
        if self.source.base == "hstore":
            return hstore.pairs(value)
        value = value if self.promised is None else self.kept(value)
        return f"CAST({value} AS VARCHAR)" if self.kind.startswith(("FLOAT", "DOUBLE")) else value

    def kept(self, value: str) -> str:
        """Return DuckDB's expression for ``value`` where it keeps what is promised, and else null."""
        assert self.promised is not None
        return f"({kept(value, conditions(self.promised, value, DUCKDB).values())})"


@dataclass(frozen=True)
class Plan:
    """``not_compared``: column to reason. ``problems``: what makes the table differ, whatever its rows are."""

    compared: tuple[ComparedColumn, ...]
    not_compared: dict[str, str]
    problems: tuple[str, ...]


def plan(
    table: SourceTable, lake_types: Mapping[str, str], key: tuple[str, ...], withheld: Mapping[str, str],
    contract: Contract | None = None,
) -> Plan:  # fmt: skip
    """Match the source's columns with the lake's (name to DuckDB type); every column is compared or has a reason.

    ``withheld``: columns of the source that the table's spec keeps it from following, and what isn't followed.
    ``contract``: the table's, if it has one.
    """
    compared, skipped, problems = [], {}, []
    for column in table.columns:
        lake, kind = lake_types.get(column.name), column.duckdb_type
        if column.name in withheld:
            skipped[column.name] = f"by the table's spec: {withheld[column.name]}"
        elif column.excluded:
            skipped[column.name] = "excluded from capture by hand"
        elif lake is None and column.generated:
            skipped[column.name] = "generated in the source, and PostgreSQL doesn't publish generated columns"
        elif lake is None and column.left_out is not None:
            skipped[column.name] = f"not in the lake: {column.left_out}"
        elif lake is None:
            problems.append(f"column {column.name} is missing in the lake")
        elif kind is None:
            skipped[column.name] = f"no exact comparison for the type {column.declared}"
        elif kind.startswith("DECIMAL") and lake == "VARCHAR":
            # A domain over a numeric is text.
            compared.append(ComparedColumn(column, lake, lake))
        elif not _comparable(kind, lake):
            problems.append(
                f"column {column.name} is {column.declared} in the source, which {lake} in the lake can't hold"
            )
        else:
            compared.append(ComparedColumn(column, kind, lake, _nulling(contract, column)))
    names = {column.name for column in table.columns}
    skipped |= {name: "not in the source (any more)" for name in lake_types if name not in names and name[0] != "_"}
    comparable = {column.name for column in compared}
    problems += [f"key column {name} can't be compared" for name in key if name not in comparable]
    if table.key != key and sorted(table.key) != sorted(key):
        problems.append(f"the key is {_names(table.key)} in the source and {_names(key)} in the lake")
    return Plan(tuple(compared), skipped, tuple(problems))


def _christian(text: str) -> str:
    """Return DuckDB's expression for a date's or timestamp's text as DuckDB reads it: the era before the time."""
    before_christ = f"regexp_replace({text}, '^(\\S+)(.*) BC$', '\\1 (BC)\\2')"
    return f"CASE WHEN ends_with({text}, ' BC') THEN {before_christ} ELSE {text} END"


def _nulling(contract: Contract | None, column: TableColumn) -> Column | None:
    promised = contract.column(column.name) if contract is not None and not column.is_array else None
    return promised if promised is not None and promised.on_violation == "null" else None


def _comparable(kind: str, lake: str) -> bool:
    if kind.endswith("[]") or lake.endswith("[]"):
        return kind.endswith("[]") and lake.endswith("[]") and _comparable(kind[:-2], lake[:-2])
    if kind in _INTEGERS:
        return lake in _INTEGERS
    if kind.startswith("DECIMAL"):
        return lake.startswith("DECIMAL")
    return kind == lake


def _names(columns: tuple[str, ...]) -> str:
    return "(" + ", ".join(columns) + ")" if columns else "none"
