"""Project change rows, as they were written, onto the columns that the table has now. Pure.

A row that was written under an earlier schema keeps its values: a renamed column's under the new name, a dropped one's
nowhere. Where a column didn't exist yet, the row shows what PostgreSQL shows there.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.schema.columns import SourceColumn, TableShape
from pipelines.schema.lake_types import is_promoted, printed, spark_type
from pipelines.schema.plan import TargetSchema, WithheldChange, versions_of
from pipelines.schema.policy import DISCARD_ROW
from pipelines.schema.versions import TableVersions, Version
from pipelines.sources.base.change_rows import WITHHELD


def project_rows(rows: DataFrame, shape: TableShape, target: TargetSchema, versions: TableVersions) -> DataFrame:
    """Give ``rows``, all decoded with ``shape``, the columns of ``target``."""
    written = versions_of(shape, versions) if target.attributes is not None else ()
    if len(written) <= 1 and not target.withheld and _types(target.columns) == _types(shape.columns):
        return rows

    def image(name: str) -> list[Column]:
        return [_value(c, name, shape, target, versions, written).alias(c.name) for c in target.columns]

    values = image("row")
    missing = [
        _missing(column, shape, target, written).alias(column.name)
        for column in target.columns
        if column.type.toastable
    ]
    problem = _discarded(shape, target, written, dict(zip((c.name for c in target.columns), values, strict=True)))
    before = F.when(F.col("before").isNotNull(), F.struct(*image("before"))) if "before" in rows.columns else None
    return rows.withColumns(
        {
            "row": F.struct(*values),
            **({} if before is None else {"before": before}),
            "unavailable": F.struct(F.lit(None).cast("boolean").alias(""), *missing),
            "problem": F.coalesce(F.col("problem"), problem),
        }
    )


def _discarded(
    shape: TableShape, target: TargetSchema, written: Sequence[Version], values: Mapping[str, Column]
) -> Column:
    """Return the problem of rows that need a change which is withheld and discards them; null otherwise."""
    problem = F.lit(None).cast("string")
    names = {column.name for column in shape.columns}
    for change in target.withheld:
        if change.word != DISCARD_ROW:
            continue
        found = [_needs(change, version, names, values) for version in written]
        withheld_problem = F.when(
            _by_version(found, written) & (F.col("op") != "d"), F.lit(f"{WITHHELD}: {change.kind} of {change.column}")
        )
        problem = F.coalesce(problem, withheld_problem)
    return problem


def _needs(change: WithheldChange, version: Version, names: set[str], values: Mapping[str, Column]) -> Column:
    """Return whether a row written under ``version`` has something that the change would have made room for."""
    attribute = version.by_number.get(change.number)
    if change.kind == "drop":
        return F.lit(attribute is None)
    if attribute is None or attribute.name not in names:
        return F.lit(False)
    if change.kind == "rename":
        return F.lit(attribute.name != change.lake)
    given = F.col("row").getField(attribute.name).isNotNull()
    return given if change.lake is None else given & values[change.lake].isNull()


def _types(columns: Sequence[SourceColumn]) -> list[tuple[str, str]]:
    return [(column.name, printed(column.type.iceberg)) for column in columns]


def _value(
    column: SourceColumn,
    image: str,
    shape: TableShape,
    target: TargetSchema,
    versions: TableVersions,
    written: Sequence[Version],
) -> Column:
    kind = spark_type(column.type.iceberg)
    absent = none = F.lit(None).cast(kind)
    first = versions.first_with(_number(column, target))
    if first is not None:
        attribute = first.by_number[_number(column, target)]
        if attribute.missing is not None:
            default = attribute.missing.sql(column.type.iceberg)
            absent = absent if default is None else F.expr(default)

    def read(name: str | None) -> Column:
        source = next((c for c in shape.columns if c.name == name), None)
        if source is None:
            return absent
        value = F.col(image).getField(source.name)
        if printed(source.type.iceberg) == printed(column.type.iceberg):
            return value
        if is_promoted(printed(source.type.iceberg), printed(column.type.iceberg)):
            return value.cast(kind)
        if is_promoted(printed(column.type.iceberg), printed(source.type.iceberg)):
            # The wider type is withheld: what fits the narrower one exactly is kept.
            narrow = value.try_cast(kind)
            return F.when(narrow.cast(spark_type(source.type.iceberg)) == value, narrow)
        # Another type: its older values come with the snapshot that was asked for.
        return none

    def value(name: str | None, version: Version | None) -> Column:
        gone = name is None and version is not None and first is not None and version.log_position > first.log_position
        return none if gone else read(name)

    known: list[Version | None] = list(written) or [None]
    names = _names(column, target, written)
    return _by_version([value(name, version) for name, version in zip(names, known, strict=True)], written)


def _missing(column: SourceColumn, shape: TableShape, target: TargetSchema, written: Sequence[Version]) -> Column:
    toastable = {c.name for c in shape.toastable}
    found = [
        F.col("unavailable").getField(name) if name in toastable else F.lit(False)
        for name in _names(column, target, written)
    ]
    return _by_version(found, written)


def _names(column: SourceColumn, target: TargetSchema, written: Sequence[Version]) -> list[str | None]:
    """Return what the column was called, by version; its own name where the log says nothing."""
    if not written:
        return [column.name]
    found = [version.by_number.get(_number(column, target)) for version in written]
    return [None if attribute is None else attribute.name for attribute in found]


def _by_version(values: Sequence[Column], written: Sequence[Version]) -> Column:
    def later(before: Column, step: tuple[Column, Version]) -> Column:
        value, version = step
        return F.when(F.col("log_position") >= version.log_position, value).otherwise(before)

    return reduce(later, zip(values[1:], written[1:], strict=True), values[0])


def _number(column: SourceColumn, target: TargetSchema) -> int:
    return next((number for number, name in (target.attributes or {}).items() if name == column.name), 0)
