"""Protect one table's columns, as its contract wants them in the lake and as its own rows have them.

What is read from a topic, projected and enforced has the source's types. Right after that values are protected, and
what is merged has the lake's: text for every protected column. A table's property says how its rows have each column,
of which type it is in the source, and by which key; so the two can be told apart, and a contract that says something
else now doesn't mix both in one column (:mod:`pipelines.evolve.reprotect`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.errors import StopPipeline
from pipelines.lake.properties import PROTECTED
from pipelines.protection.crypto import place_of, without_key
from pipelines.protection.functions import Vault, has_text, text_of
from pipelines.protection.letters import seal
from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.schema.lake_types import plain_type, printed
from pipelines.schema.plan import Change
from pipelines.schema.versions import Default
from pipelines.sql import literal, quote
from quality.contract import Contract
from quality.errors import ContractError
from quality.protection import Protection

KEYED = ("hash", "tokenise", "encrypt")


@dataclass(frozen=True)
class ColumnProtection:
    """The protection of one column in a table.

    ``type``: the source's, as the lake would have it; ``key``: the fingerprint of what it was made with; ``place``:
    what its values are bound to.
    """

    how: Protection
    type: str
    key: str | None = None
    place: str | None = None

    def same(self, other: "ColumnProtection | None") -> bool:
        """Return whether values of both can be in one column."""
        return other is not None and replace(other, type=self.type) == self


class ProtectedColumns:
    """The columns of a table that a contract (None: there is none) protects. ``vault``: None: there are no keys.

    Raises ContractError where something is to be protected, and there are none.
    """

    def __init__(self, contract: Contract | None = None, vault: Vault | None = None) -> None:
        self._contract, self._vault = contract, vault
        self._how: Mapping[str, Protection] = contract.protected if contract is not None else {}
        if self._how and vault is None:
            raise ContractError(without_key([contract] if contract else []))

    def entry(self, name: str, iceberg: Any) -> ColumnProtection | None:
        """Return how a column of this name and type shall be protected; None: not at all."""
        how = self._how.get(name)
        if how is None or self._contract is None or self._vault is None:
            return None
        key = self._vault.keys.fingerprint if how in KEYED else None
        place = place_of(self._contract.table, name) if how == "encrypt" else None
        return ColumnProtection(how, printed(iceberg), key, place)

    def check(self, columns: Sequence[SourceColumn], keys: Sequence[str]) -> None:
        """Raise StopPipeline where a table with these columns can't be had as the contract says.

        Rather no row than one that shows what nobody may see.
        """
        wrong = list(self._wrong(columns, keys)) if self._contract is not None else []
        if wrong:
            assert self._contract is not None
            raise StopPipeline(
                f"{self._contract.source_name} can't be protected as its contract says: {'; '.join(wrong)}. Nothing of"
                " this batch was merged into it. Change the contract, and have the mirror read it"
                " (`make up`). See infra/runbooks/protection-changed.md"
            )

    def _wrong(self, columns: Sequence[SourceColumn], keys: Sequence[str]) -> Iterable[str]:
        assert self._contract is not None
        for column in columns:
            how, kind = self._how.get(column.name), column.type.iceberg
            if how is not None and column.name in keys:
                yield f"{column.name} is of the key, whose values rows are found by"
            elif how is not None and how != "drop" and not has_text(kind):
                yield f"{column.name} is {printed(kind)}, which has no text that every engine writes alike (say drop)"
            elif how == "encrypt" and not keys:
                yield f"{column.name} is encrypted each time anew, and without a key rows are found by all their values"
        names = {column.name for column in columns}
        lost = sorted(self._how.keys() - names)
        strangers = [column.name for column in columns if self._contract.column(column.name) is None]
        if lost and strangers:
            yield (
                f"it has no column {', '.join(lost)}, but {', '.join(strangers)}, which the contract doesn't name (one"
                " may be the other's new name)"
            )

    def columns(self, columns: Sequence[SourceColumn]) -> tuple[SourceColumn, ...]:
        """Return the columns as the lake has them."""
        return tuple(self._column(column) for column in columns)

    def shape(self, shape: TableShape) -> TableShape:
        """Return the shape of change rows once :meth:`protect` has made them."""
        return replace(shape, columns=self.columns(shape.columns)) if self._how else shape

    def _column(self, column: SourceColumn) -> SourceColumn:
        how = self._how.get(column.name)
        if how is None:
            return column
        kind = plain_type(printed(self._type(column.name, column.type.iceberg)))
        toastable = column.type.toastable and how != "drop"
        return replace(column, type=replace(kind, toastable=toastable, lost=column.type.lost))

    def _type(self, name: str, iceberg: Any) -> Any:
        return iceberg if self._how.get(name) in (None, "drop") else "string"

    def protect(self, rows: DataFrame, shape: TableShape) -> DataFrame:
        """Return change rows (of :mod:`pipelines.changes.admit`) with their values protected.

        ``shape``: the rows' shape before that.
        """
        if not self._how:
            return rows
        images: Sequence[str] = ("row", "before")
        return rows.withColumns({name: self._image(name, shape) for name in images if name in rows.columns})

    def _image(self, image: str, shape: TableShape) -> Column:
        missing = {column.name for column in shape.toastable} if image == "row" else set()
        fields = []
        for column in shape.columns:
            value = F.col(image).getField(column.name)
            if column.name in self._how:
                # What stands for a value that was left out is no value.
                value_or_null = (
                    F.when(~F.col("unavailable").getField(column.name), value) if column.name in missing else value
                )
                value = self._value(column, value_or_null)
            fields.append(value.alias(column.name))
        return F.when(F.col(image).isNotNull(), F.struct(*fields))

    def _value(self, column: SourceColumn, value: Column) -> Column:
        assert self._contract is not None
        assert self._vault is not None
        how, kind = self._how[column.name], column.type.iceberg
        if how == "drop":
            return F.when(F.lit(False), value)
        return self._vault.protected(text_of(value, kind), how, place_of(self._contract.table, column.name))

    def applied(self, rows: DataFrame, types: Mapping[str, Any]) -> DataFrame:
        """Return rows of a query with their values protected. ``types``: Iceberg's of their columns.

        Raises StopPipeline where a value would be another one each time.
        """
        if "encrypt" in self._how.values():
            assert self._contract is not None
            raise StopPipeline(
                f"{self._contract.source_name} is computed, and what is encrypted comes out differently each time: say"
                " hash, tokenise, mask or drop in its contract, and restart"
            )
        columns = [SourceColumn(name, None, plain_type(printed(types[name]))) for name in self._how if name in types]
        return rows.withColumns({c.name: self._value(c, F.col(quote(c.name))) for c in columns}) if columns else rows

    def changes(self, found: Sequence[Change]) -> list[Change]:
        """Return changes of the source's columns as changes of the lake's."""
        made = [replace(c, to=self._type(c.column, c.to)) if c.kind in ("add", "replace") else c for c in found]
        return [c for c in made if not (c.kind == "widen" and self._type(c.column, c.to) != c.to)]

    def hide_values(self, found: Sequence[Change]) -> list[Change]:
        """Return changes as they may be reported: without what older rows show in a protected column."""
        hidden = [c.missing is not None and c.column in self._how for c in found]
        return [replace(c, missing=Default("(protected)")) if h else c for c, h in zip(found, hidden, strict=True)]

    def default(self, name: str, sql: str | None, iceberg: Any) -> str | None:
        """Return the SQL of what a column's older rows show, which ``sql`` is in the source."""
        if sql is None or name not in self._how:
            return sql
        assert self._vault is not None
        made = self._value(SourceColumn(name, None, plain_type(printed(iceberg))), F.expr(sql))
        (found,) = self._vault.row.select(made).collect()[0]
        return None if found is None else literal(found)

    def properties(self, properties: Mapping[str, str], types: Mapping[str, Any]) -> dict[str, str]:
        """Return the properties to write into a table that is to have these columns.

        ``properties``: those that it has. ``types``: name to the source's type.
        """
        return protection_property(properties, {name: self.entry(name, kind) for name, kind in types.items()})

    def check_same(self, table: str, properties: Mapping[str, str], kept: Mapping[str, str]) -> None:
        """Raise StopPipeline if rows of a table have a column otherwise than it shall be.

        ``kept``: what a column is called to what the table's rows have it as.
        """
        has = column_protections(properties)
        for name, old in kept.items():
            entry = self.entry(name, "string")
            was = has.get(old)
            if (entry is None) != (was is None) or (entry is not None and not entry.same(was)):
                raise StopPipeline(
                    f"rows of {table} don't have {old} as the contract says now. Nothing was merged; it is looked at"
                    " again within a minute."
                )

    def sealed(self, letters: DataFrame) -> DataFrame:
        """Seal dead letters, where the table has something to protect."""
        return seal(letters, self._vault) if self._how and self._vault is not None else letters


def protection_property(
    properties: Mapping[str, str], columns: Mapping[str, ColumnProtection | None]
) -> dict[str, str]:
    """Return the properties to write into a table with these ``properties`` that is to have columns protected so."""
    text = json.dumps({name: asdict(entry) for name, entry in columns.items() if entry is not None})
    return {} if properties.get(PROTECTED, "{}") == text else {PROTECTED: text}


def column_protections(properties: Mapping[str, str]) -> dict[str, ColumnProtection]:
    """Return column to how a table has it, of those that are protected."""
    return {name: ColumnProtection(**entry) for name, entry in json.loads(properties.get(PROTECTED, "{}")).items()}


def source_types(properties: Mapping[str, str], types: Mapping[str, str]) -> dict[str, str]:
    """Return a table's columns with the types that they would have if nothing were protected."""
    has = column_protections(properties)
    return {name: has[name].type if name in has else kind for name, kind in types.items()}
