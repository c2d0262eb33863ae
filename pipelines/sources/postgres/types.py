"""Map PostgreSQL's own types to the lake's, beyond what every Debezium source shares.

See :mod:`pipelines.sources.debezium.types`.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.schema.lake_types import LakeType, UnsupportedType
from pipelines.schema.versions import Default
from pipelines.sources.debezium.names import SOURCE_LENGTH, SOURCE_SCALE, SOURCE_TYPE
from pipelines.sources.debezium.types import MAX_DECIMAL_PRECISION, PRIMITIVE, SEMANTIC, list_of
from pipelines.sources.postgres.bits import bits

MAX_SCALE = 1000
SPECIAL_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}

_TEXT = PRIMITIVE["string"]
# What the schema log calls the base of a type that the connector doesn't know, and of an array of them.
PRINTED = "printed"
# Bytes that are a value's own. All others are what PostgreSQL prints of a value, or bits.
_BINARY = "BYTEA"
_BITS = ("BIT", "VARBIT")
# What the connector sends as records, of which the lake has no type.
NO_TYPE = ("geometry", "geography", "sparsevec", "_geometry", "_geography")
_POSTGRES = {
    "bool": PRIMITIVE["boolean"], "int2": PRIMITIVE["int"], "int4": PRIMITIVE["int"], "int8": PRIMITIVE["long"],
    "float4": PRIMITIVE["float"], "float8": PRIMITIVE["double"], "bytea": PRIMITIVE["bytes"],
    "date": SEMANTIC["io.debezium.time.Date"], "timestamp": SEMANTIC["io.debezium.time.MicroTimestamp"],
    "timestamptz": SEMANTIC["io.debezium.time.ZonedTimestamp"], "time": SEMANTIC["io.debezium.time.MicroTime"],
    "uuid": SEMANTIC["io.debezium.data.Uuid"],
    "oid": PRIMITIVE["long"], "int2vector": list_of(PRIMITIVE["int"]), "oidvector": list_of(PRIMITIVE["long"]),
    **dict.fromkeys(("point", "lseg", "path", "box", "polygon", "line", "circle"), _TEXT),
    **dict.fromkeys(("text", "varchar", "bpchar", "json", "jsonb", "xml", "citext", "enum", "name", PRINTED), _TEXT),
    **dict.fromkeys(("timetz", "interval", "money", "inet", "cidr", "macaddr", "macaddr8", "tsvector"), _TEXT),
    **dict.fromkeys(("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange", "hstore"), _TEXT),
}  # fmt: skip


def declared_type(kind: Any, source_type: str, source: Mapping[str, str]) -> LakeType | None:
    """Return the type of a value of which only its type in the source, ``source_type``, tells how it is to be read."""
    length, scale = int(source.get(SOURCE_LENGTH, 0)), int(source.get(SOURCE_SCALE, 0))
    if kind == "string" and source_type == "NUMERIC":
        # Of a domain the connector doesn't tell how many digits it has.
        return _number(length, scale) if source.get(SOURCE_TYPE) == source_type else _number(0, 0)
    if kind == "bytes" and source_type in _BITS:
        return LakeType("string", partial(bits, length=length if source_type == "BIT" else None), toastable=True)
    if kind == "bytes" and source_type and source_type != _BINARY:
        # The connector sends what it doesn't know as PostgreSQL prints it. What is no text isn't that.
        return LakeType("string", lambda value: F.try_validate_utf8(value.cast("string")), True, True)
    return None


def element_type(source_type: str) -> str:
    """Return the type of the elements of an array type, as the connector names both."""
    return source_type[1:] if source_type.startswith("_") else source_type


def is_explained(kind: Any, source_type: str) -> bool:
    """Return whether a type's name tells whether its bytes are a text. A domain's name doesn't."""
    return kind != "bytes" or source_type in (_BINARY, f"_{_BINARY}", *_BITS, *(f"_{name}" for name in _BITS))


def postgres_type(name: str, typmod: int) -> LakeType:
    """Return the lake's type for a column of PostgreSQL's type ``name`` (as in pg_type; ``enum`` for any enum).

    It is what :func:`lake_type` says of the connector's events of such a column. Raises UnsupportedType.
    """
    if name in ("_numeric", "_bit"):
        return list_of(_TEXT)
    if name.startswith("_"):
        return list_of(postgres_type(name[1:], typmod))
    if name == "numeric":
        return _number(((typmod - 4) >> 16) & 0xFFFF, (typmod - 4) & 0x7FF) if typmod >= 4 else _TEXT
    if name == "bit":
        return PRIMITIVE["boolean"] if typmod == 1 else _TEXT
    if name == "varbit":
        return _TEXT
    if name not in _POSTGRES:
        raise UnsupportedType(name)
    return _POSTGRES[name]


# Types of which a value that the lake's type can hold is made of what PostgreSQL prints of it, and what that looks
# like. Rows with other values are read again: lakehouse.is_told in schema_log.sql says the same.
_TOLD = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8", "bool", "uuid", "bit", "enum"), ".*"),
    **dict.fromkeys(("text", "varchar", "bpchar", "json", "jsonb", "inet", "cidr", "macaddr", "macaddr8"), ".*"),
    "numeric": "[-.0-9]+", "time": "[.:0-9]+",
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "[0-9]{4}-[-+.: 0-9]+"),
}  # fmt: skip


def column_default(text: str | None, postgres: str) -> Default | None:
    """Return the default that PostgreSQL printed as ``text`` for a column of its type ``postgres`` (as in pg_type).

    Without a literal where it can't be made of its text exactly as events have it.
    """
    if text is None:
        return None
    if not re.fullmatch(_TOLD.get(postgres, "(?!)"), text, re.DOTALL):
        return Default(text, None)
    return Default(text, _with_microseconds(text) if postgres == "time" else text)


def _with_microseconds(time: str) -> str:
    seconds, _, fraction = time.partition(".")
    return f"{seconds}.{fraction:0<6}"


def why_left_out(base: str) -> str | None:
    """Return why the lake has no column of a type, or of an array of it; None: it has."""
    return f"the lake has no type for {base}" if base in NO_TYPE else None


def _number_text(value: Column, whole: bool) -> Column:
    """Return a numeric as PostgreSQL prints it.

    ``whole``: its scale is negative, which the connector takes for a huge one.
    """
    printed_alike = F.regexp_replace(value, r"\.0*$", "") if whole else value
    for connectors, postgres in SPECIAL_NUMBERS.items():
        printed_alike = F.when(value == connectors, F.lit(postgres)).otherwise(printed_alike)
    return printed_alike


def _number(precision: int, scale: int) -> LakeType:
    """Return the type of a numeric: a decimal, or without bounds a text.

    It arrives as text, so that NaN and the infinities do too.
    """
    if not (0 < precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        return LakeType("string", partial(_number_text, whole=scale > MAX_SCALE), toastable=True)
    kind = f"decimal({precision},{scale})"
    return LakeType(f"decimal({precision}, {scale})", lambda value: value.try_cast(kind), fallible=True)
