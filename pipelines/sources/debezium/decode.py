"""Decode a topic's raw records, which Debezium wrote, to change rows (:mod:`pipelines.sources.base.change_rows`).

Bytes that can't be decoded give a problem, never an error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from pipelines.kafka.wire import HEADER_BYTES, id_bytes, is_replayed, schema_id
from pipelines.schema.columns import SHAPES, SourceColumn, TableShape
from pipelines.sources.base.change_rows import (
    FOREIGN_TABLE,
    UNAVAILABLE,
    UNDECODABLE,
    UNREPRESENTABLE,
    schema_problem,
)
from pipelines.sources.debezium.dialect import Dialect
from pipelines.sources.debezium.envelope import reader_schema
from pipelines.sources.debezium.names import NEW_KEY_HEADER, OLD_KEY_HEADER
from pipelines.sources.debezium.types import is_unavailable


def decode(
    raw: DataFrame,
    shape: TableShape,
    writers: Mapping[int, str],
    rejected: Mapping[int, str],
    placeholder: str,
    dialect: Dialect,
    keyless: bool = False,
    carry: tuple[str, ...] = (),
) -> DataFrame:
    """Decode the change rows of ``raw``, which holds one topic.

    ``writers``: schema id to Avro writer schema; ``rejected``: schema id to the problem with every record that has it.
    ``keyless``: of a table without a key. ``carry``: columns of ``raw`` that the change rows have as well.
    """
    steps = _steps(
        raw.sparkSession._jvm, shape, tuple(sorted(writers.items())), tuple(sorted(rejected.items())), placeholder,
        dialect, keyless, carry,
    )  # fmt: skip
    records = raw.where(steps.valued).select(*steps.framed)
    opened = records.select(*steps.decoded).select(*steps.opened)
    if steps.completed is not None:
        opened = opened.withColumn("image", steps.completed)
    # Used whole and by its fields, a column is computed once.
    return opened.withColumns(steps.images).select(*steps.changes)


@dataclass(frozen=True)
class _Steps:
    """The columns of each step from records to change rows."""

    valued: Column
    framed: list[Column]
    decoded: list[Column]
    opened: list[Column]
    completed: Column | None
    images: dict[str, Column]
    changes: list[Column]


@lru_cache(maxsize=SHAPES)
def _steps(
    _jvm: Any, shape: TableShape, writers: tuple[tuple[int, str], ...], rejected: tuple[tuple[int, str], ...],
    placeholder: str, dialect: Dialect, keyless: bool, carry: tuple[str, ...],
) -> _Steps:  # fmt: skip
    """Return the steps, which are made once.

    A table of twenty columns needs seven hundred calls into the JVM for them (``_jvm``).
    """
    image = F.when(F.col("event.op") == "d", F.col("event.before")).otherwise(F.col("event.after"))
    old = F.when(F.col("event.op").isin("u", "d"), F.col("event.before"))
    late = (F.col("event.op") == "r") & is_replayed(F.col("headers"))
    carried = [F.col(name) for name in carry]
    record = [*(F.col(name) for name in ("partition", "offset", "headers")), *carried]
    opened = [*record, F.col("schema_id"), _old_key(shape).alias("old_key"), F.col("event"), image.alias("image")]
    changes = [
        F.col("partition"),
        F.col("offset"),
        F.when(late, F.lit("c")).otherwise(F.col("event.op")).alias("op"),
        dialect.log_position().alias("log_position"),
        F.timestamp_micros("event.source.ts_us").alias("committed_at"),
        F.col("row"),
        *([F.col("before")] if keyless else []),
        F.struct(
            F.lit(None).cast("boolean").alias(""),
            *[is_unavailable(_raw(c), c.avro, placeholder).alias(c.name) for c in shape.toastable],
        ).alias("unavailable"),
        F.col("old_key"),
        F.coalesce(F.exists("headers", lambda h: h["key"] == F.lit(NEW_KEY_HEADER)), F.lit(False)).alias("leaving"),
        is_replayed(F.col("headers")).alias("replayed"),
        _problem(shape, dict(rejected), placeholder, dialect, keyless).alias("problem"),
        *carried,
    ]
    return _Steps(
        valued=F.col("value").isNotNull(),
        framed=[
            *record,
            schema_id("value").alias("schema_id"),
            F.expr(f"substring(value, {HEADER_BYTES + 1})").alias("body"),
        ],
        decoded=[*record, F.col("schema_id"), _event(shape, dict(writers), dialect).alias("event")],
        opened=[*opened, *([old.alias("old")] if keyless else [])],
        completed=_completed(shape, placeholder) if keyless else None,
        images={
            "row": F.struct(*[_value(c).alias(c.name) for c in shape.columns]),
            **({"before": _before(shape)} if keyless else {}),
        },
        changes=changes,
    )


def _event(shape: TableShape, writers: Mapping[int, str], dialect: Dialect) -> Column:
    options = {"avroSchema": reader_schema(shape, dialect), "mode": "PERMISSIVE"}
    event = F.lit(None)
    for writer_id, writer in sorted(writers.items()):
        mine = F.col("schema_id") == F.lit(id_bytes(writer_id))
        event = F.when(mine, from_avro(F.col("body"), writer, options)).otherwise(event)
    return event


def _old_key(shape: TableShape) -> Column:
    header = F.filter(F.col("headers"), lambda h: h["key"] == F.lit(OLD_KEY_HEADER))
    old_key = F.get(header, 0)["value"].cast("string")
    for column in shape.columns:
        if column.field != column.name:
            # A quote within a value is escaped, so that this can only be the name.
            was, name = (F.lit(f"{json.dumps(text, ensure_ascii=False)}:") for text in (column.field, column.name))
            old_key = F.replace(old_key, was, name)
    return old_key


def _raw(column: SourceColumn, image: str = "image") -> Column:
    return F.col(image).getField(column.field)


def _value(column: SourceColumn, image: str = "image") -> Column:
    return column.type.convert(_raw(column, image))


def _completed(shape: TableShape, placeholder: str) -> Column:
    """Return the image with the unchanged values that are left out of it, which the whole old row holds."""
    toastable = {column.name for column in shape.toastable}

    def value(column: SourceColumn) -> Column:
        if column.name not in toastable:
            return _raw(column)
        left_out = is_unavailable(_raw(column), column.avro, placeholder)
        return F.when(left_out & F.col("old").isNotNull(), _raw(column, "old")).otherwise(_raw(column))

    return F.when(F.col("image").isNotNull(), F.struct(*[value(c).alias(c.field) for c in shape.columns]))


def _before(shape: TableShape) -> Column:
    row = F.struct(*[_value(c, "old").alias(c.name) for c in shape.columns])
    return F.when(F.col("old").isNotNull(), row)


def _problem(
    shape: TableShape, rejected: Mapping[int, str], placeholder: str, dialect: Dialect, keyless: bool
) -> Column:
    problem = schema_problem(F.col("schema_id"), rejected)
    has_row = F.col("image").isNotNull() | (F.col("event.op") == "t")
    problem = problem.when(F.col("event.op").isNull() | ~has_row | dialect.log_position().isNull(), F.lit(UNDECODABLE))
    problem = problem.when(dialect.table() != F.lit(f"{shape.schema_name}.{shape.table_name}"), F.lit(FOREIGN_TABLE))
    # Where there is a key, a delete needs no more than that.
    images = [("image", "row", F.lit(True)), ("old", "before", F.lit(True))]
    for image, values, used in images if keyless else [("image", "row", F.col("event.op") != "d")]:
        for column in shape.columns:
            raw = _raw(column, image)
            missing = is_unavailable(raw, column.avro, placeholder) if column.type.toastable else F.lit(False)
            if column.type.fallible:
                lost = used & raw.isNotNull() & F.col(values).getField(column.name).isNull() & ~missing
                problem = problem.when(lost, F.lit(f"{UNREPRESENTABLE}: {column.name}"))
            if keyless and column.type.toastable:
                problem = problem.when(missing, F.lit(UNAVAILABLE))
    return problem
