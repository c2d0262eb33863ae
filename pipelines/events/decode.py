"""Decode a stream's raw records to change rows (:mod:`pipelines.sources.base.change_rows`), each of which is a create.

So everything that is asked of a change of a source's row is asked of an event in the same way: contracts, protection,
dead letters. Bytes that can't be decoded give a problem, never an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from pipelines.events.columns import Column
from pipelines.kafka.wire import HEADER_BYTES, MAGIC, id_bytes, is_replayed, schema_id
from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.schema.lake_types import LakeType, spark_type, unchanged
from pipelines.sources.base.change_rows import (
    FUTURE,
    MISSING_VALUE,
    NO_SCHEMA,
    NOT_JSON,
    TOO_OLD,
    UNDECODABLE,
    UNKNOWN_SCHEMA,
)
from pipelines.specs.events import EventSpec
from pipelines.sql import quote

CREATE = "c"
_CORRUPT = "__corrupt"


@dataclass(frozen=True)
class StreamSchema:
    """How a stream's records are read.

    ``columns``: those that the table shall have of the events; ``writers``: schema id to the text and the columns of
    each schema that records may name; empty: records name none. ``rejected``: schema id to the problem with every
    record that names it.
    """

    columns: tuple[Column, ...]
    writers: Mapping[int, tuple[str, tuple[Column, ...]]]
    rejected: Mapping[int, str]


def table_shape(spec: EventSpec, columns: Sequence[Column]) -> TableShape:
    """Return the shape of a stream's rows: the events' columns, then what the spec wants of the record beside them."""
    more = [name for name in (spec.key, spec.headers) if name is not None]
    kinds: dict[str, Any] = {column.name: column.iceberg for column in columns}
    kinds |= {name: "string" if name == spec.key else HEADERS for name in more}
    found = tuple(SourceColumn(name, None, LakeType(kind, unchanged), field=name) for name, kind in kinds.items())
    namespace, name = spec.name
    return TableShape(spec.topic, namespace, name, found, namespace)


# Of headers, whose values are mostly text; one that isn't has its bytes' hexadecimal digits.
HEADERS: Any = {"type": "map", "key": "string", "value": "string", "value-required": False}


def decode(raw: DataFrame, spec: EventSpec, schema: StreamSchema, carry: tuple[str, ...] = ()) -> DataFrame:
    """Return the change rows of ``raw``, which has ``timestamp`` too. ``carry``: its columns that they have as well."""
    record = [F.col(name) for name in dict.fromkeys(("key", "partition", "offset", "headers", "timestamp", *carry))]
    framed = raw.where(F.col("value").isNotNull()).select(
        *record, F.col("value"), schema_id("value").alias("schema_id"), _body().alias("body")
    )
    reader = _json if spec.format == "json" else _avro
    decoded = framed.select(*record, F.col("schema_id"), *reader(schema))
    problem = _problem(spec, schema)
    values = [F.col("event").getField(column.name).alias(column.name) for column in schema.columns]
    if spec.key is not None:
        values.append(F.col("key").cast("string").alias(spec.key))
    if spec.headers is not None:
        values.append(_headers().alias(spec.headers))
    return decoded.select(
        F.col("partition"),
        F.col("offset"),
        F.lit(CREATE).alias("op"),
        F.lit(None).cast("long").alias("log_position"),
        F.col("timestamp").alias("committed_at"),
        F.when(problem.isNull(), F.struct(*values)).alias("row"),
        F.struct(F.lit(None).cast("boolean").alias("")).alias("unavailable"),
        F.lit(None).cast("string").alias("old_key"),
        F.lit(False).alias("leaving"),
        is_replayed(F.col("headers")).alias("replayed"),
        problem.alias("problem"),
        *[F.col(name) for name in carry],
    )


def _body() -> SparkColumn:
    """Return a value without what Confluent's wire format puts before it."""
    framed = F.substring("value", 1, 1) == F.lit(MAGIC)
    return F.when(framed, F.expr(f"substring(value, {HEADER_BYTES + 1})")).otherwise(F.col("value"))


def _json(schema: StreamSchema) -> list[SparkColumn]:
    types = [f"{quote(c.name)} {spark_type(c.iceberg)}" for c in schema.columns]
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    event = F.from_json(F.col("body").cast("string"), ", ".join([*types, f"{_CORRUPT} string"]), options)
    return [event.alias("event")]


def _avro(schema: StreamSchema) -> list[SparkColumn]:
    fields = ", ".join(f"{quote(c.name)}: {spark_type(c.iceberg)}" for c in schema.columns)
    event = F.lit(None).cast(f"struct<{fields}>")
    for identifier, (text, has) in sorted(schema.writers.items()):
        mine = F.col("schema_id") == F.lit(id_bytes(identifier))
        read = from_avro(F.col("body"), text, {"mode": "PERMISSIVE"})
        event = F.when(mine, _fitted(read, has, schema.columns)).otherwise(event)
    return [event.alias("event")]


def _fitted(value: SparkColumn, has: Sequence[Column], wanted: Sequence[Column]) -> SparkColumn:
    """Return a record in the columns that are ``wanted``, null where its writer's schema doesn't have one."""
    known = {column.name: column.iceberg for column in has}
    fields = [
        (
            _fitted_value(value.getField(c.name), known[c.name], c.iceberg)
            if c.name in known
            else F.lit(None).cast(spark_type(c.iceberg))
        ).alias(c.name)
        for c in wanted
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def _fitted_value(value: SparkColumn, has: Any, wanted: Any) -> SparkColumn:
    if has == wanted:
        return value
    if not isinstance(wanted, Mapping):
        return value.cast(spark_type(wanted))
    if wanted["type"] == "list":
        return F.transform(value, lambda each: _fitted_value(each, has["element"], wanted["element"]))
    if wanted["type"] == "map":
        return F.transform_values(value, lambda _, each: _fitted_value(each, has["value"], wanted["value"]))
    mine, theirs = ([Column(f["name"], f["type"]) for f in kind["fields"]] for kind in (has, wanted))
    return _fitted(value, mine, theirs)


def _problem(spec: EventSpec, schema: StreamSchema) -> SparkColumn:
    event, column = F.col("event"), spec.event_time.column
    problem = F.when(F.lit(False), F.lit(None).cast("string"))
    if schema.writers or schema.rejected:
        known = [F.lit(id_bytes(identifier)) for identifier in sorted(schema.writers)]
        problem = problem.when(F.col("schema_id").isNull(), F.lit(NO_SCHEMA))
        for identifier, why in sorted(schema.rejected.items()):
            problem = problem.when(F.col("schema_id") == F.lit(id_bytes(identifier)), F.lit(why))
        unknown = F.concat(F.lit(f"{UNKNOWN_SCHEMA}: "), F.conv(F.hex("schema_id"), 16, 10))
        problem = problem.when(~F.col("schema_id").isin(known), unknown)
    if spec.format == "json":
        problem = problem.when(event.isNull() | event.getField(_CORRUPT).isNotNull(), F.lit(NOT_JSON))
    else:
        # Of bytes that aren't of their schema Spark makes a record of nulls.
        empty = reduce(SparkColumn.__and__, [event.getField(each.name).isNull() for each in schema.columns])
        problem = problem.when(event.isNull() | empty, F.lit(UNDECODABLE))
    for each in schema.columns:
        if each.required or each.name == column:
            problem = problem.when(event.getField(each.name).isNull(), F.lit(f"{MISSING_VALUE}: {each.name}"))
    late, early = spec.event_time.earliest, spec.event_time.latest
    moments = (event.getField(column), F.col("timestamp"))
    happened, came = (F.unix_micros(moment.cast("timestamp")) for moment in moments)
    if late is not None:
        problem = problem.when(happened < came - F.lit(round(late * 1e6)), F.lit(TOO_OLD))
    if early is not None:
        problem = problem.when(happened > came + F.lit(round(early * 1e6)), F.lit(FUTURE))
    return problem


def _headers() -> SparkColumn:
    """Return a record's headers by name, the last of those of one name."""

    def text(header: SparkColumn) -> SparkColumn:
        value = header["value"]
        return F.coalesce(F.try_validate_utf8(value.cast("string")), F.hex(value))

    entries = F.transform("headers", lambda each: F.struct(each["key"].alias("key"), text(each).alias("value")))
    last = F.filter(
        entries,
        lambda each, at: (
            ~F.exists(F.slice(entries, at + F.lit(2), F.size(entries)), lambda later: later["key"] == each["key"])
        ),
    )
    return F.map_from_entries(F.coalesce(last, F.array()))
