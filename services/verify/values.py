"""Debezium's Avro values as neutral Python values, by the meaning that the schema's name gives them. Pure.

Neutral: numbers and booleans as they are, decimals, UUIDs and timestamps with zone as text, dates as days and
timestamps as microseconds since 1970, times of day as ``HH:MM:SS.ffffff``, bytes as bytes, lists of these.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pipelines.sources.postgres.lost import PRINTED
from pipelines.sources.postgres.names import column_name, row_of

_MICROSECONDS = 1_000_000


def row_fields(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Column name to Avro schema, from the schema of a change event."""
    return {column_name(field): field["type"] for field in row_of(envelope)}


def neutral(value: Any, avro: Any) -> Any:
    """The neutral form of a decoded value whose writer schema is ``avro``."""
    if value is None:
        return None
    branch = next(b for b in avro if b != "null") if isinstance(avro, list) else avro
    kind = branch if isinstance(branch, dict) else {"type": branch}
    if kind.get("type") == "array":
        return [neutral(item, kind["items"]) for item in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    source = kind.get("connect.parameters", {})
    said = str(source.get("__debezium.source.column.type"))
    if said in _TOLD and kind.get("type") in ("string", "bytes"):
        return _TOLD[said](value, source)
    convert = _BY_MEANING.get(str(kind.get("connect.name")))
    return value if convert is None else convert(value)


def is_unavailable(value: Any, placeholder: str) -> bool:
    """Whether a decoded value is Debezium's stand-in for "unchanged, not in the log", in any of its forms."""
    if isinstance(value, list):
        if len(value) == 1 and not isinstance(value[0], list):
            return is_unavailable(value[0], placeholder)
        return value == [ord(character) for character in placeholder]
    return bool(value == placeholder or (isinstance(value, bytes) and value == placeholder.encode()))


def time_of_day(microseconds: int) -> str:
    """``HH:MM:SS.ffffff``."""
    seconds, fraction = divmod(microseconds, _MICROSECONDS)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _bits(value: bytes, length: int) -> str:
    """As PostgreSQL prints them: the least comes last. The connector doesn't tell leading zeros without a length."""
    number = int.from_bytes(value, "little")
    return f"{number:0{length}b}" if length or number else ""


def _number(text: str, scale: int) -> str:
    """As PostgreSQL prints it. The connector takes a negative scale for one beyond 1000, and fills up with zeros."""
    special = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
    return special.get(text) or (text.split(".", maxsplit=1)[0] if scale > 1000 else text)


_LENGTH, _SCALE = "__debezium.source.column.length", "__debezium.source.column.scale"
# By the column's type in the source.
_TOLD: dict[str, Callable[[Any, Mapping[str, str]], str]] = {
    "NUMERIC": lambda text, source: _number(text, int(source.get(_SCALE, 0))),
    "BIT": lambda octets, source: _bits(octets, int(source[_LENGTH])),
    "VARBIT": lambda octets, _: _bits(octets, 0),
    **dict.fromkeys(PRINTED, lambda octets, _: octets.decode()),
}

_BY_MEANING: dict[str, Callable[[Any], Any]] = {
    "io.debezium.time.Timestamp": lambda milliseconds: milliseconds * 1000,
    "io.debezium.time.MicroTime": time_of_day,
    "io.debezium.time.Time": lambda milliseconds: time_of_day(milliseconds * 1000),
    "io.debezium.data.Uuid": str,
}

_ARROW = {
    "INTEGER": pa.int64(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "BLOB": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
}  # fmt: skip


def arrow_type(duckdb_type: str) -> pa.DataType:
    """The Arrow type that holds neutral values on their way to a DuckDB type; text where DuckDB parses it."""
    if duckdb_type.endswith("[]"):
        return pa.list_(arrow_type(duckdb_type[:-2]))
    return _ARROW.get(duckdb_type, pa.string())
