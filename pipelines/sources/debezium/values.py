"""Debezium's Avro values as neutral Python values, by the meaning that the schema's name gives them. Pure.

What is neutral: :class:`pipelines.sources.base.database.SourceEvents`.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pipelines.sources.debezium.names import SOURCE_TYPE, column_name, row_of

# A decoded value and what the connector says of its column, to the neutral value.
Convert = Callable[[Any, Mapping[str, str]], str]
_MICROSECONDS = 1_000_000


def row_fields(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Return column name to Avro schema, from the schema of a change event."""
    return {column_name(field): field["type"] for field in row_of(envelope)}


def neutral(value: Any, avro: Any, by_source_type: Mapping[str, Convert]) -> Any:
    """Return the neutral form of a decoded value whose writer schema is ``avro``.

    ``by_source_type``: for types of the source whose values the schema alone doesn't tell.
    """
    if value is None:
        return None
    branch = next(b for b in avro if b != "null") if isinstance(avro, list) else avro
    kind = branch if isinstance(branch, dict) else {"type": branch}
    if kind.get("type") == "array":
        return [neutral(item, kind["items"], by_source_type) for item in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    source = kind.get("connect.parameters", {})
    said = str(source.get(SOURCE_TYPE))
    if said in by_source_type and kind.get("type") in ("string", "bytes"):
        return by_source_type[said](value, source)
    convert = _BY_MEANING.get(str(kind.get("connect.name")))
    return value if convert is None else convert(value)


def is_unavailable(value: Any, placeholder: str) -> bool:
    """Return whether a decoded value is Debezium's stand-in for "unchanged, not in the log", in any of its forms."""
    if isinstance(value, list):
        if len(value) == 1 and not isinstance(value[0], list):
            return is_unavailable(value[0], placeholder)
        return value == [ord(character) for character in placeholder]
    return bool(value == placeholder or (isinstance(value, bytes) and value == placeholder.encode()))


def time_of_day(microseconds: int) -> str:
    """Return microseconds since midnight as ``HH:MM:SS.ffffff``."""
    seconds, fraction = divmod(microseconds, _MICROSECONDS)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


_BY_MEANING: dict[str, Callable[[Any], Any]] = {
    "io.debezium.time.Timestamp": lambda milliseconds: milliseconds * 1000,
    "io.debezium.time.MicroTime": time_of_day,
    "io.debezium.time.Time": lambda milliseconds: time_of_day(milliseconds * 1000),
    "io.debezium.data.Uuid": str,
}
