"""A range of keys on the lake's side: the rows in it, and the files that can hold such rows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual

from pipelines.sources.base.tables import Key, KeyRange
from services.stack.duckdb_sql import literal
from services.stack.lake_files import EVERY_FILE
from services.verify.columns import ComparedColumn

# Not uuid: writers don't agree on the order of its bounds (decision 008).
_PRUNABLE = {"INTEGER": int, "BIGINT": int, "VARCHAR": str}


@dataclass(frozen=True)
class LakeRange:
    """A range of keys on the lake's side.

    ``rows``: DuckDB's condition on the columns ``c0, c1, …``. ``files``: PyIceberg's, for what a scan plans.
    """

    rows: str = "true"
    files: BooleanExpression = EVERY_FILE


EVERY_ROW = LakeRange()


def lake_range(within: KeyRange, key: Sequence[str], columns: Sequence[ComparedColumn]) -> LakeRange:
    """Return the rows whose ``key`` (its columns in the order of the range's texts) lies in ``within``."""
    at = {column.name: (f"c{i}", column) for i, column in enumerate(columns)}
    parts = [at[name] for name in key]
    rows = [_beyond(parts, bound, sign) for bound, sign in ((within.after, ">"), (within.upto, "<")) if bound]
    return LakeRange(" AND ".join(rows) or "true", _files(within, parts[0][1]))


def _beyond(parts: Sequence[tuple[str, ComparedColumn]], bound: Key, sign: str) -> str:
    """Compare column by column.

    The first is also bounded by itself, by which a reader of Parquet leaves out row groups.
    """
    values = [column.parsed(literal(text)) for (_, column), text in zip(parts, bound, strict=True)]
    condition = "false" if sign == ">" else "true"
    for (name, _), value in reversed(list(zip(parts, values, strict=True))):
        condition = f"({name} {sign} {value} OR ({name} = {value} AND {condition}))"
    return f"{parts[0][0]} {sign}= {values[0]} AND {condition}"


def _files(within: KeyRange, first: ComparedColumn) -> BooleanExpression:
    convert = _PRUNABLE.get(first.lake_kind)
    kept: BooleanExpression = EVERY_FILE
    if convert is None:
        return kept
    if within.after:
        kept = And(kept, GreaterThanOrEqual(term=first.name, value=convert(within.after[0])))
    if within.upto:
        kept = And(kept, LessThanOrEqual(term=first.name, value=convert(within.upto[0])))
    return kept
