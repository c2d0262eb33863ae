"""Whose copies are looked for, by values of columns, and how that is asked of the source, of files, of events.

A row is named by columns whose values have one text everywhere: whole numbers, texts, UUIDs and decimals.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType, StringType, UUIDType

from pipelines.kafka.avro import Decoder, Undecodable
from pipelines.lake.properties import PROTECTED
from pipelines.sources.base.database import SourceEvents, SourceSession
from pipelines.sources.debezium.names import NEW_KEY_HEADER, OLD_KEY_HEADER, column_name, column_names
from pipelines.sources.debezium.values import row_fields
from pipelines.sources.kinds import source_events
from services.operations.erase.errors import CannotErase
from services.stack.duckdb_sql import literal
from services.stack.lake import PinnedTable
from services.stack.lake_files import duckdb_type

_NAMEABLE = (IntegerType, LongType, StringType, UUIDType, DecimalType)


@dataclass(frozen=True)
class Subject:
    """Rows of a mirrored table: those whose columns have these values, as text."""

    table: PinnedTable
    values: Mapping[str, str]
    events: SourceEvents = field(default_factory=source_events, compare=False)

    @classmethod
    def of(cls, table: PinnedTable, text: str) -> "Subject":
        """Return the subject of ``7`` (a key of one column), or ``column=value,column=value``. Raises CannotErase."""
        values = _parsed(text, table.key)
        has = {field.name: field.field_type for field in table.table.schema().fields}
        protected = json.loads(table.table.properties.get(PROTECTED, "{}"))
        for name, value in values.items():
            if name not in has:
                raise CannotErase(f"{table.full_name} has no column {name}: it has {', '.join(has)}.")
            if name in protected:
                raise CannotErase(f"{name} is protected in the lake: name the row by another column, such as its key.")
            _check(name, has[name], value)
        return cls(table, values)

    def in_source(self, source: SourceSession) -> int:
        """Return how many rows of the source they are; a table that was dropped has none."""
        return source.count_equal(self.table.schema, self.table.source_table, self.values)

    def in_lake(self) -> BooleanExpression:
        """Return the condition for PyIceberg."""
        kinds = {field.name: field.field_type for field in self.table.table.schema().fields}
        each: list[BooleanExpression] = [
            EqualTo(term=name, value=_exact(kinds[name], text)) for name, text in self.values.items()
        ]
        return each[0] if len(each) == 1 else And(*each)

    def in_files(self) -> tuple[str, str]:
        """Return what DuckDB is to read of data files, by field, and the condition on it."""
        fields = [self.table.table.schema().find_field(name) for name in self.values]
        kinds = [duckdb_type(field.field_type) for field in fields]
        schema = ", ".join(
            f"{field.field_id}: {{name: 'c{i}', type: '{kind}', default_value: NULL}}"
            for i, (field, kind) in enumerate(zip(fields, kinds, strict=True))
        )
        values = enumerate(zip(kinds, self.values.values(), strict=True))
        return f"MAP {{{schema}}}", " AND ".join(
            f"c{i} = CAST({literal(value)} AS {kind})" for i, (kind, value) in values
        )

    def in_event(self, decoder: Decoder, key: bytes | None, value: bytes | None, headers: Any) -> bool | None:
        """Return whether an event of the table's topic is about such a row; None: it can't be read."""
        said: list[Mapping[str, Any]] = list(_moved(headers))
        read = False
        for part in (value, key):
            try:
                images = list(self._images(decoder, part))
            except Undecodable:
                continue
            said += images
            read = read or any(self.values.keys() <= image.keys() for image in images)
        if any(self._is(image) for image in said):
            return True
        return False if read else None

    def _is(self, image: Mapping[str, Any]) -> bool:
        kinds = {field.name: field.field_type for field in self.table.table.schema().fields}
        return all(_same(kinds[name], image.get(name), text) for name, text in self.values.items())

    def _images(self, decoder: Decoder, part: bytes | None) -> Iterator[Mapping[str, Any]]:
        """Return the rows that an event's key or value tells, by column."""
        if part is None:
            return
        told, schema = decoder.decode(part)
        if not isinstance(told, dict):
            return
        if not {"before", "after"} <= told.keys():
            fields = {field["name"]: field for field in schema["fields"]}
            yield {column_name(fields[n]): self.events.value(value, fields[n]["type"]) for n, value in told.items()}
            return
        kinds, names = row_fields(schema), column_names(schema)
        for image in (told["before"], told["after"]):
            if image is not None:
                yield {names[n]: self.events.value(value, kinds[names[n]]) for n, value in image.items()}


def _parsed(text: str, key: tuple[str, ...]) -> dict[str, str]:
    if len(key) == 1 and "=" not in text:
        return {key[0]: text}
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign for name, sign, _ in parts):
        named = ",".join(f"{name}=…" for name in key) or "COLUMN=VALUE,…"
        raise CannotErase(f"{text} doesn't name a row: say {named}")
    return {name.strip(): value for name, _, value in parts}


def _check(name: str, kind: IcebergType, value: str) -> None:
    if not isinstance(kind, _NAMEABLE):
        raise CannotErase(f"{name} is {kind}: a row is named by columns of whole numbers, decimals, texts or UUIDs.")
    try:
        if isinstance(kind, IntegerType | LongType):
            int(value)
        elif isinstance(kind, DecimalType):
            Decimal(value)
    except (ValueError, InvalidOperation):
        raise CannotErase(f"{name} is {kind}, and {value!r} is none.") from None


def _exact(kind: IcebergType, text: str) -> str | Decimal:
    return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale)) if isinstance(kind, DecimalType) else text


def _same(kind: IcebergType, found: Any, text: str) -> bool:
    if found is None:
        return False
    try:
        return Decimal(str(found)) == Decimal(text) if isinstance(kind, DecimalType) else str(found) == text
    except InvalidOperation:
        return False


def _moved(headers: Any) -> Iterator[Mapping[str, Any]]:
    """Return the other keys that a row had before or has after a change of its key."""
    for name, value in headers or []:
        if name in (OLD_KEY_HEADER, NEW_KEY_HEADER) and value:
            yield json.loads(value)
