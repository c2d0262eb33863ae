"""The Arrow schema in which a table's files are written and read: Iceberg's types, found by field ids."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"

_TYPES = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "string": pa.string(), "binary": pa.binary(), "uuid": pa.uuid(),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class NoArrowType(ValueError):
    """Files of this column aren't written from Arrow."""


def arrow_field(column: dict[str, Any]) -> pa.Field:
    """Return the field of a column in Iceberg's JSON form. Raises NoArrowType."""
    return pa.field(column["name"], _arrow_type(column["type"]), not column["required"], _identified(column["id"]))


def field_ids(schema: pa.Schema) -> dict[int, str]:
    """Return id to name of the columns of a file, which may have had other names when it was written."""
    found = {}
    for field in schema:
        identifier = (field.metadata or {}).get(FIELD_ID)
        if identifier is not None:
            found[int(identifier)] = field.name
    return found


def field_id(field: pa.Field) -> int:
    """Return the field's id."""
    return int(field.metadata[FIELD_ID])


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict) and kind["type"] == "struct":
        return pa.struct([_nested(f["name"], f["type"], f["required"], f["id"]) for f in kind["fields"]])
    if isinstance(kind, dict) and kind["type"] == "map":
        key = _nested("key", kind["key"], True, kind["key-id"])
        return pa.map_(key, _nested("value", kind["value"], kind["value-required"], kind["value-id"]))
    if isinstance(kind, dict):
        return pa.list_(_nested("element", kind["element"], kind["element-required"], kind["element-id"]))
    if isinstance(kind, str):
        if kind in _TYPES:
            return _TYPES[kind]
        if (found := _DECIMAL.fullmatch(kind)) is not None:
            return pa.decimal128(int(found[1]), int(found[2]))
    raise NoArrowType(str(kind))


def _nested(name: str, kind: Any, required: bool, identifier: int) -> pa.Field:
    if kind == "uuid":
        # Only a column's own values are told by their type.
        raise NoArrowType(f"uuid within {name}")
    return pa.field(name, _arrow_type(kind), not required, _identified(identifier))


def _identified(identifier: int) -> dict[bytes, bytes]:
    return {FIELD_ID: str(identifier).encode()}


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.Array):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def stored_names(names: Mapping[int, str], fields: Sequence[pa.Field]) -> list[str]:
    """Return what a file calls those of ``fields`` that it has. ``names``: of :func:`field_ids`."""
    return [names[field_id(each)] for each in fields if field_id(each) in names]


def as_fields(rows: pa.Table, names: Mapping[int, str], fields: Sequence[pa.Field]) -> pa.Table:
    """Give what was read of a file the names and types that the table has now; a column that it lacks is null.

    Each column may be null, also one that the table requires: a file can be older than the requirement.
    """
    columns = []
    for each in fields:
        name = names.get(field_id(each))
        column = pa.nulls(rows.num_rows, each.type) if name is None else one_array(rows[name])
        columns.append(as_type(column, each.type))
    return pa.table(columns, names=[each.name for each in fields])


def as_rows(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Return rows as Spark gives them in the columns and types of a table; a column that they lack is null."""
    columns = []
    for each in fields:
        if each.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, each.type))
            continue
        column = one_array(rows[each.name])
        if each.type == pa.uuid():
            texts = column.to_pylist()
            column = pa.array([None if text is None else uuid.UUID(text).bytes for text in texts], pa.binary(16))
        columns.append(as_type(column, each.type))
    return pa.table(columns, schema=pa.schema(fields))


def for_spark(rows: pa.Table) -> pa.Table:
    """Return a table's rows in types that Spark takes: a uuid as its text."""
    for index, each in enumerate(rows.schema):
        if each.type == pa.uuid():
            stored = [column.storage for column in rows[each.name].chunks]
            texts = [None if b is None else str(uuid.UUID(bytes=b)) for part in stored for b in part.to_pylist()]
            rows = rows.set_column(index, pa.field(each.name, pa.string()), pa.array(texts, pa.string()))
    return rows


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that a table has: what was promoted since, or bytes of a uuid."""
    if column.type == kind:
        return column
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, column)
    return column.cast(kind)
