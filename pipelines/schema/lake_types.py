"""The lake's types, and how a source's value becomes one of them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column

from pipelines.sql import quote

Convert = Callable[[Column], Column]


class UnsupportedType(ValueError):
    """The lake has no type yet that holds every value of this column."""


@dataclass(frozen=True)
class LakeType:
    """The type that a source type becomes.

    ``iceberg`` is the type in Iceberg's JSON schema form; ``convert`` turns the decoded Avro value into the Spark value
    and keeps null as null; ``fallible`` says that ``convert`` gives null for a value which the lake can't hold (the row
    is then a dead letter); ``toastable`` that PostgreSQL may leave an unchanged value out of an update; ``lost`` what
    of a value the connector doesn't keep.
    """

    iceberg: Any = field(hash=False)
    convert: Convert
    fallible: bool = False
    toastable: bool = False
    lost: str | None = None


def unchanged(value: Column) -> Column:
    """Return the value as it is."""
    return value


def plain_type(iceberg: str) -> LakeType:
    """Return a printed Iceberg type as the type of values that are the lake's already."""
    if iceberg.startswith("list<"):
        return LakeType(list_of(iceberg[5:-1]), unchanged, toastable=True)
    return LakeType(iceberg, unchanged, toastable=iceberg in ("string", "binary"))


def spark_type(iceberg: Any) -> str:
    """Return the Spark type in which Spark reads and writes an Iceberg type, given in JSON form or printed."""
    if isinstance(iceberg, dict):
        if iceberg["type"] == "struct":
            fields = (f"{quote(field['name'])}: {spark_type(field['type'])}" for field in iceberg["fields"])
            return f"struct<{', '.join(fields)}>"
        if iceberg["type"] == "map":
            return f"map<{spark_type(iceberg['key'])}, {spark_type(iceberg['value'])}>"
        return f"array<{spark_type(iceberg['element'])}>"
    name = str(iceberg)
    return f"array<{spark_type(name[5:-1])}>" if name.startswith("list<") else _SPARK.get(name, name)


_SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}


def printed(iceberg: Any) -> str:
    """Return an Iceberg type as Iceberg prints it, but for the numbers of a struct's fields."""
    if not isinstance(iceberg, dict):
        return str(iceberg)
    if iceberg["type"] == "struct":
        fields = (f"{field['name']}: {printed(field['type'])}" for field in iceberg["fields"])
        return f"struct<{', '.join(fields)}>"
    if iceberg["type"] == "map":
        return f"map<{printed(iceberg['key'])}, {printed(iceberg['value'])}>"
    return f"list<{printed(iceberg['element'])}>"


def list_of(element: Any) -> dict[str, Any]:
    """Return the type of lists in Iceberg's JSON form, their elements not numbered yet."""
    return {"type": "list", "element": element, "element-required": False}


def map_of(value: Any) -> dict[str, Any]:
    """Return the type of maps from texts in Iceberg's JSON form, not numbered yet."""
    return {"type": "map", "key": "string", "value": value, "value-required": False}


def struct_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of structs of these fields, all of which may be null, in Iceberg's JSON form, not numbered."""
    return {
        "type": "struct",
        "fields": [{"name": name, "required": False, "type": kind} for name, kind in fields.items()],
    }


def is_promoted(was: str, kind: str) -> bool:
    """Return whether Iceberg can read a column of the printed type ``was`` as ``kind``, every value exactly."""
    if (was, kind) in (("int", "long"), ("float", "double")):
        return True
    if not (was.startswith("decimal(") and kind.startswith("decimal(")):
        return False
    (precision, scale), (wider, same) = (map(int, text[8:-1].split(",")) for text in (was, kind))
    return scale == same and wider > precision
