"""Columns that the lake has protected, compared all the same.

What was done to a value on its way (:mod:`pipelines.protection.columns`) is done to the source's here, so that both
sides hold the same, and neither the value itself.

Of an encrypted one, which is another each time, both sides are the hash of what it was.
"""

from dataclasses import dataclass, replace

from pipelines.protection.columns import KEYED, ColumnProtection, column_protections
from pipelines.protection.crypto import ProtectionKeys
from pipelines.sources.base.tables import SourceTable
from quality.contract import Contract
from services.stack import lake_files
from services.stack.duckdb_functions import HASH, MASK, READ, TOKEN
from services.stack.duckdb_sql import literal
from services.stack.lake import PinnedTable
from services.verify import columns
from services.verify.columns import ComparedColumn, Plan

# Before a value of the source which the contract says is null in the lake.
NULLED = "~"
_KINDS = {
    "string": "VARCHAR", "uuid": "UUID", "binary": "BLOB", "boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT",
    "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
_MADE = {"hash": HASH, "tokenise": TOKEN, "mask": MASK, "encrypt": HASH}


@dataclass(frozen=True)
class ProtectedColumn(ComparedColumn):
    """A column that the lake has protected.

    ``raw``: the column as it would be compared if nothing were protected; ``how``: what is done to its values.
    """

    raw: ComparedColumn | None = None
    how: ColumnProtection | None = None

    @property
    def tail_kind(self) -> str:
        """The DuckDB type of values that come by the topic."""
        return self._raw.kind

    def parsed(self, text: str) -> str:
        """Return DuckDB's expression for the value of a text, as the lake shall have it."""
        return self._made(self._raw.parsed(text))

    def unfit(self, text: str) -> str | None:
        """Return DuckDB's condition for "the type can't hold this text"; None if it always can."""
        return self._raw.unfit(text)

    def named(self, text: str) -> str:
        """Return DuckDB's expression for what is shown of a text: only that there is one."""
        return f"regexp_replace({text}, '^.*$', '(protected)', 's')"

    def arrived(self, value: str) -> str:
        """Return DuckDB's expression for a value of the topic, as the lake shall have it."""
        return self._made(f"TRY_CAST({value} AS {self._raw.kind})")

    def stored(self, value: str) -> str:
        """Return DuckDB's expression for a value of the lake, as it is compared."""
        if self._how.how == "encrypt":
            return f"{READ}({value}, {literal(self._how.place or '')})"
        return f"CAST({value} AS VARCHAR)"

    def differs(self, source: str, lake: str) -> str:
        """Return whether they aren't the same; what is null by contract may also be as it was before the contract."""
        plain = f"{source} IS DISTINCT FROM {lake}"
        if self._raw.promised is None:
            return plain
        allowed = f"{lake} IS NULL OR {literal(NULLED)} || {lake} = {source}"
        return f"({plain} AND NOT (starts_with(coalesce({source}, ''), {literal(NULLED)}) AND ({allowed})))"

    def grouped(self, value: str) -> str:
        """Return an expression to group by, as the lake shall have the value."""
        if self._raw.promised is None:
            return value
        return f"CASE WHEN NOT starts_with({value}, {literal(NULLED)}) THEN {value} END"

    def _made(self, value: str) -> str:
        if self._how.how == "drop":
            return "NULL::VARCHAR"
        made = f"{_MADE[self._how.how]}({text_of(value, self._raw.kind)})"
        if self._raw.promised is None:
            return made
        return f"CASE WHEN ({self._raw.kept(value)}) IS NULL THEN {literal(NULLED)} || {made} ELSE {made} END"

    @property
    def _raw(self) -> ComparedColumn:
        assert self.raw is not None
        return self.raw

    @property
    def _how(self) -> ColumnProtection:
        assert self.how is not None
        return self.how


def plan(table: SourceTable, pinned: PinnedTable, contract: Contract | None, keys: ProtectionKeys | None) -> Plan:
    """Match the source's columns with the lake's, as :func:`services.verify.columns.plan`, with protected ones.

    ``keys``: None: there are none.
    """
    has = column_protections(pinned.table.properties)
    types = {name: _kind(has[name].type, kind) if name in has else kind
             for name, kind in lake_files.lake_types(pinned).items()}  # fmt: skip
    found = columns.plan(table, types, pinned.key, pinned.withheld, contract)
    reasons = {name: reason for name, entry in has.items() if (reason := _why_not(entry, keys))}
    unordered = {c.name for c in found.compared if c.name in has and c.source.base == "hstore"}
    reasons |= {name: "protected, and hstore has no order of its own" for name in unordered if has[name].how != "drop"}
    compared = tuple(
        _protected(column, has[column.name]) if column.name in has else column
        for column in found.compared
        if column.name not in reasons
    )
    return replace(found, compared=compared, not_compared=found.not_compared | reasons)


def text_of(value: str, kind: str) -> str:
    """Return DuckDB's expression for the canonical text of a value.

    As :func:`pipelines.protection.functions.text_of` has it in Spark.
    """
    match kind:
        case "BLOB":
            return f"lower(hex({value}))"
        case "DATE":
            return _day(value)
        case "TIMESTAMP":
            return _moment(value)
        case "TIMESTAMP WITH TIME ZONE":
            return _moment(f"make_timestamp(epoch_us({value}))")
        case _:
            return f"CAST({value} AS VARCHAR)"


def _day(value: str) -> str:
    sign = f"CASE WHEN year({value}) > 9999 THEN '+' WHEN year({value}) < 0 THEN '-' ELSE '' END"
    return f"({sign} || printf('%04d-%02d-%02d', abs(year({value})), month({value}), day({value})))"


def _moment(value: str) -> str:
    clock = f"printf(' %02d:%02d:%02d', hour({value}), minute({value}), second({value}))"
    fraction = f"rtrim(rtrim(printf('.%06d', microsecond({value}) % 1000000), '0'), '.')"
    return f"({_day(value)} || {clock} || {fraction})"


def _protected(column: ComparedColumn, how: ColumnProtection) -> ProtectedColumn:
    return ProtectedColumn(column.source, "VARCHAR", "VARCHAR", None, column, how)


def _why_not(entry: ColumnProtection, keys: ProtectionKeys | None) -> str | None:
    if entry.how not in KEYED or (keys is not None and keys.fingerprint == entry.key):
        return None
    why = "there is no PROTECTION_KEY here" if keys is None else "with another key than the PROTECTION_KEY here"
    return f"protected ({entry.how}): {why}"


def _kind(iceberg: str, kind: str) -> str:
    return iceberg.upper().replace(" ", "") if iceberg.startswith("decimal") else _KINDS.get(iceberg, kind)
