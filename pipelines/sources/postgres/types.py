"""Map PostgreSQL's own types to the lake's, beyond what every Debezium source shares.

See :mod:`pipelines.sources.debezium.types`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.schema.lake_types import LakeType, UnsupportedType
from pipelines.schema.versions import Default
from pipelines.sources.debezium.names import SOURCE_LENGTH, SOURCE_SCALE
from pipelines.sources.debezium.types import MAX_DECIMAL_PRECISION, PRIMITIVE, SEMANTIC, list_of
from pipelines.sources.postgres.bits import bits
from pipelines.sources.postgres.lost import PRINTED

MAX_SCALE = 1000
SPECIAL_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}

_TEXT = PRIMITIVE["string"]
_POSTGRES = {
    "bool": PRIMITIVE["boolean"], "int2": PRIMITIVE["int"], "int4": PRIMITIVE["int"], "int8": PRIMITIVE["long"],
    "float4": PRIMITIVE["float"], "float8": PRIMITIVE["double"], "bytea": PRIMITIVE["bytes"],
    "date": SEMANTIC["io.debezium.time.Date"], "timestamp": SEMANTIC["io.debezium.time.MicroTimestamp"],
    "timestamptz": SEMANTIC["io.debezium.time.ZonedTimestamp"], "time": SEMANTIC["io.debezium.time.MicroTime"],
    "uuid": SEMANTIC["io.debezium.data.Uuid"],
    **dict.fromkeys(("text", "varchar", "bpchar", "json", "jsonb", "xml", "citext", "enum"), _TEXT),
    **dict.fromkeys((name.lower() for name in PRINTED), _TEXT),
}  # fmt: skip


def declared_type(kind: Any, source_type: str, source: Mapping[str, str]) -> LakeType | None:
    """Return the type of a column of which only its type in the source, ``source_type``, tells how it is to be read."""
    length, scale = int(source.get(SOURCE_LENGTH, 0)), int(source.get(SOURCE_SCALE, 0))
    if kind == "string" and source_type == "NUMERIC":
        return _number(length, scale)
    if kind == "bytes" and source_type in ("BIT", "VARBIT"):
        return LakeType("string", partial(bits, length=length if source_type == "BIT" else None), toastable=True)
    if kind == "bytes" and source_type in PRINTED:
        return LakeType("string", lambda value: value.cast("string"), toastable=True)
    return None


def postgres_type(name: str, typmod: int) -> LakeType:
    """Return the lake's type for a column of PostgreSQL's type ``name`` (as in pg_type; ``enum`` for any enum).

    It is what :func:`lake_type` says of the connector's events of such a column. Raises UnsupportedType.
    """
    if name == "_numeric":
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


def column_default(text: str | None, postgres: str) -> Default | None:
    """Return the default that PostgreSQL printed as ``text`` for a column of its type ``postgres`` (as in pg_type)."""
    if text is None:
        return None
    if postgres.startswith("_") or postgres == "bytea":
        # A value of these can't be made of their text.
        return Default(text, None)
    return Default(text, f"{text}.000000" if postgres == "time" and "." not in text else text)


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
