"""The lake's types: how a source's value becomes one of them. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column

Convert = Callable[[Column], Column]


class UnsupportedType(ValueError):
    """The lake has no type yet that holds every value of this column."""


@dataclass(frozen=True)
class LakeType:
    """What a source type becomes.

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
    """A printed Iceberg type as the type of values that are the lake's already."""
    if iceberg.startswith("list<"):
        return LakeType(
            {"type": "list", "element": iceberg[5:-1], "element-required": False}, unchanged, toastable=True
        )
    return LakeType(iceberg, unchanged, toastable=iceberg in ("string", "binary"))


def spark_type(iceberg: Any) -> str:
    """The name of the Spark type in which Spark reads and writes an Iceberg type, given in JSON form or printed."""
    if isinstance(iceberg, dict):
        return f"array<{spark_type(iceberg['element'])}>"
    name = str(iceberg)
    return f"array<{spark_type(name[5:-1])}>" if name.startswith("list<") else _SPARK.get(name, name)


_SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}


def printed(iceberg: Any) -> str:
    """An Iceberg type as Iceberg prints it."""
    return f"list<{printed(iceberg['element'])}>" if isinstance(iceberg, dict) else str(iceberg)


def is_promoted(was: str, kind: str) -> bool:
    """Whether Iceberg can read a column of the printed type ``was`` as ``kind``, every value exactly."""
    if (was, kind) in (("int", "long"), ("float", "double")):
        return True
    if not (was.startswith("decimal(") and kind.startswith("decimal(")):
        return False
    (precision, scale), (wider, same) = (map(int, text[8:-1].split(",")) for text in (was, kind))
    return scale == same and wider > precision
