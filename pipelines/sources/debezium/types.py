"""Map a column of a Debezium event to a column of the lake.

Debezium says what a value means by the name of its Connect schema (``connect.name`` in Avro). The mapping is exact for
every type named here; a type that isn't named raises :class:`UnsupportedType`, and is never altered in silence. Source:
the connectors' documentation, "Data type mappings".
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.schema.lake_types import LakeType, UnsupportedType, unchanged
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.names import SOURCE_TYPE

MAX_DECIMAL_PRECISION = 38

# PostgreSQL's own bounds, in days and microseconds since 1970. What is outside them stands for infinity, or is a
# timestamp after the year 294246 that didn't fit into the connector's 64 bits.
FIRST_DAY, LAST_DAY = -2_440_588, 2_145_042_905
FIRST_MICROSECOND, LAST_MICROSECOND = FIRST_DAY * 86_400_000_000, (1 << 63) - 2
MIDNIGHT = 86_400_000_000


def _date(value: Column) -> Column:
    return F.when(value.between(FIRST_DAY, LAST_DAY), F.date_from_unix_date(value))


def _micro_timestamp(value: Column) -> Column:
    finite = value.between(FIRST_MICROSECOND, LAST_MICROSECOND)
    return F.when(finite, F.timestamp_micros(value)).cast("timestamp_ntz")


def _milli_timestamp(value: Column) -> Column:
    finite = value.between(FIRST_MICROSECOND // 1000, LAST_MICROSECOND // 1000)
    return F.when(finite, F.timestamp_millis(value)).cast("timestamp_ntz")


def _zoned_timestamp(value: Column) -> Column:
    # The session's zone is UTC, and to look up the one that is named takes longer than to read the rest.
    return F.rtrim(value, F.lit("Z")).try_cast("timestamp")


def _time_of_day(value: Column) -> Column:
    before = F.date_format(F.timestamp_micros(value), "HH:mm:ss.SSSSSS")
    return F.when(value == MIDNIGHT, F.lit("24:00:00.000000")).otherwise(before)


SEMANTIC = {
    "io.debezium.time.Date": LakeType("date", _date, fallible=True),
    "io.debezium.time.MicroTimestamp": LakeType("timestamp", _micro_timestamp, fallible=True),
    "io.debezium.time.Timestamp": LakeType("timestamp", _milli_timestamp, fallible=True),
    "io.debezium.time.ZonedTimestamp": LakeType("timestamptz", _zoned_timestamp, fallible=True),
    "io.debezium.time.MicroTime": LakeType("string", _time_of_day),
    "io.debezium.time.Time": LakeType("string", lambda value: _time_of_day(value * 1000)),
    "io.debezium.data.Uuid": LakeType("uuid", unchanged),
}

PRIMITIVE = {
    "boolean": LakeType("boolean", unchanged),
    "int": LakeType("int", unchanged),
    "long": LakeType("long", unchanged),
    "float": LakeType("float", unchanged),
    "double": LakeType("double", unchanged),
    "string": LakeType("string", unchanged, toastable=True),
    "bytes": LakeType("binary", unchanged, toastable=True),
}


NO_BASES: Mapping[str, str] = {}


def lake_type(avro: Any, dialect: Dialect, bases: Mapping[str, str] = NO_BASES) -> LakeType:
    """Return the lake's type for the Avro schema of one column. Raises UnsupportedType, naming what it met.

    ``bases``: declared types to the types that their values are of, by the source's schema log.
    """
    source_type = _source_type(avro, bases)
    kind = _branch(avro)
    without_null = isinstance(kind, dict) and kind.get("type") == "array" and "null" not in kind["items"]
    return replace(_lake_type(avro, source_type, dialect), lost=dialect.lost(source_type, without_null))


def needs_log(avro: Any, dialect: Dialect) -> list[str]:
    """Return the declared type of a column, if only the source's schema log tells what its values are."""
    source_type = _source_type(avro, NO_BASES)
    return [] if dialect.explained(_base(_element(avro)), source_type) else [source_type]


def _source_type(avro: Any, bases: Mapping[str, str]) -> str:
    branch = _branch(avro)
    declared = str(branch.get("connect.parameters", {}).get(SOURCE_TYPE, "")) if isinstance(branch, dict) else ""
    # Without the schema that a type is in, if the connector names that.
    declared = declared.rpartition(".")[2].strip('"')
    return bases.get(declared, declared)


def _lake_type(avro: Any, source_type: str, dialect: Dialect) -> LakeType:
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise UnsupportedType(f"a union of {len(branches)} types")
        (avro,) = branches
    if isinstance(avro, str):
        avro = {"type": avro}
    kind, semantic = avro.get("type"), avro.get("connect.name")
    if avro.get("logicalType") == "decimal":
        return _decimal(int(avro["precision"]), int(avro.get("scale", 0)))
    if kind == "array":
        return list_of(_lake_type(avro["items"], dialect.element_type(source_type), dialect))
    if semantic in SEMANTIC:
        return SEMANTIC[semantic]
    declared = dialect.declared_type(kind, source_type, avro.get("connect.parameters", {}))
    if declared is not None:
        return declared
    if isinstance(kind, str) and kind in PRIMITIVE:
        return PRIMITIVE[kind]
    raise UnsupportedType(f"{semantic or kind}")


def _decimal(precision: int, scale: int) -> LakeType:
    if precision > MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise UnsupportedType(f"numeric({precision},{scale}): Iceberg holds up to {MAX_DECIMAL_PRECISION} digits")
    return LakeType(f"decimal({precision}, {scale})", unchanged)


def list_of(element: LakeType) -> LakeType:
    """Return the type of a list of these elements."""

    def convert_item(item: Column) -> Column:
        # Spark asks a function for its name, which not everything that converts has.
        return element.convert(item)

    def convert(value: Column) -> Column:
        if element.convert is unchanged:
            return value
        items = F.transform(value, convert_item)
        converted = F.size(F.filter(items, lambda item: item.isNotNull()))
        # A list of which an element doesn't fit doesn't fit either.
        return F.when(converted == F.size(F.filter(value, lambda item: item.isNotNull())), items)

    iceberg = {"type": "list", "element": element.iceberg, "element-required": False}
    return LakeType(iceberg, convert, fallible=element.fallible, toastable=True)


# In lists of anything else the connector marks nothing; capture has their tables log whole rows.
MARKED_ELEMENTS = ("string", "bytes", "int", "long")


def is_unavailable(value: Column, avro: Any, placeholder: str) -> Column:
    """Return whether the decoded value of a toastable column is Debezium's stand-in for "unchanged, not in the log".

    ``value``: as decoded. ``placeholder`` is the connector's ``unavailable.value.placeholder``, random for each
    installation, so that no stored value can be taken for it. Never null.
    """
    kind = _base(avro)
    if kind == "string":
        found = value == F.lit(placeholder)
    elif kind == "bytes":
        found = value == F.lit(placeholder.encode())
    elif kind == "array" and _base(_items(avro)) in MARKED_ELEMENTS:
        found = value == _placeholder_list(_base(_items(avro)), placeholder)
    else:
        found = F.lit(False)
    return F.coalesce(found, F.lit(False))


def _placeholder_list(element: str, placeholder: str) -> Column:
    if element in ("int", "long"):
        return F.array(*[F.lit(ord(character)).cast(element) for character in placeholder])
    if element == "bytes":
        return F.array(F.lit(placeholder.encode()))
    return F.array(F.lit(placeholder))


def _branch(avro: Any) -> Any:
    return next(branch for branch in avro if branch != "null") if isinstance(avro, list) else avro


def _element(avro: Any) -> Any:
    """Return the schema of an array's elements, or of a value that is no array."""
    return _items(avro) if _base(avro) == "array" else avro


def _items(avro: Any) -> Any:
    return _branch(avro)["items"]


def _base(avro: Any) -> str:
    branch = _branch(avro)
    return str(branch["type"] if isinstance(branch, dict) else branch)
