"""Compute a range of a derived table once more, piece by piece, and write what differs.

Each piece is computed of the snapshots of which the table says that it is, and its commit says so again. So it may run
beside the process that keeps the table: of two commits at once one is tried again. What is right stays as it is, so a
run that was stopped is begun again at any piece.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegerType, LongType, ShortType, TimestampType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from pipelines.derived.anew import computed_anew
from pipelines.derived.compare import Keys, differing
from pipelines.derived.inputs import Origin, definition, look_up, origin_of
from pipelines.derived.write import Written, write
from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.lake.row_delta import Moved
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import PIPELINE
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote

TRIES = 5
WHOLE_NUMBERS = (ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class Piece:
    """One piece of a backfill: the values of ``by`` from ``start`` on, before ``end``, and what was written of it."""

    by: str | None
    start: Any
    end: Any
    written: Written


def backfill(
    session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, by: str | None = None, every: float = 86_400,
    start: str | None = None, end: str | None = None,
) -> Iterator[Piece]:  # fmt: skip
    """Yield each piece once it is written.

    ``by``: the column of the key by which pieces are made: a date, a time or a whole number; by itself the first such.
    ``every``: how much of it a piece has: seconds, or numbers. ``start``, ``end``: only from here, and before there.
    Raises StopPipeline.
    """
    own = session.newSession()
    rows = _Known.of(own, spec).rows(own, spec, protected)
    column = _column(rows, spec, by)
    if column is None:
        yield Piece(None, None, None, _write(own, spec, protected, Keys(None)))
        return
    kind = rows.schema[column].dataType
    least, most = _bounds(rows, column)
    at, last = _value(start, kind) if start else least, _value(end, kind) if end else _after(most, kind)
    while at is not None and last is not None and at < last:
        following = min(_step(at, every, kind), last)
        yield Piece(column, at, following, _write(own, spec, protected, Keys(None, (column, at, following))))
        at = following


@dataclass(frozen=True)
class _Known:
    """The table as it is now, and of which snapshots it says that it is."""

    lake: Lake
    table: LakeTable
    origin: Origin

    @classmethod
    def of(cls, session: SparkSession, spec: DerivedSpec) -> "_Known":
        """Look the table up. Raises StopPipeline where it isn't what its spec asks for."""
        lake = Lake(session)
        table = lake.table(*spec.name)
        origin = origin_of(table)
        if table is None or origin is None or origin.definition != definition(spec):
            raise StopPipeline(
                f"{spec.table} isn't of the definition that its spec has: the streams compute all of it first (`make up"
                " PROFILES=events`)"
            )
        return cls(lake, table, origin)

    def rows(self, session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns) -> DataFrame:
        """Return all that the query gives of these snapshots."""
        return computed_anew(session, spec, look_up(self.lake, spec), self.origin, protected).rows


def _write(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, keys: Keys) -> Written:
    """Write what differs of a piece. Raises Moved where the table changes all the time."""
    again = Retrying(retry=retry_if_exception_type(Moved), stop=stop_after_attempt(TRIES), reraise=True)
    return again(_write_once, session, spec, protected, keys)


def _write_once(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, keys: Keys) -> Written:
    known = _Known.of(session, spec)
    different = differing(session, spec, known.rows(session, spec, protected), known.table, keys)
    return write(session, spec, known.table, different, {PIPELINE: "backfill", **known.origin.summary()})


def _column(rows: DataFrame, spec: DerivedSpec, by: str | None) -> str | None:
    usable = [
        name for name in spec.key if isinstance(rows.schema[name].dataType, (DateType, TimestampType, *WHOLE_NUMBERS))
    ]
    if by is None:
        return next(iter(usable), None)
    if by not in usable:
        known = ", ".join(usable) or "none"
        raise StopPipeline(f"{spec.table} can't be made piece by piece by {by}: of its key these can: {known}")
    return by


def _bounds(rows: DataFrame, column: str) -> tuple[Any, Any]:
    found = rows.agg(F.min(quote(column)), F.max(quote(column))).toArrow()
    least, most = (found.column(index).to_pylist()[0] for index in range(2))
    return least, most


def _value(text: str, kind: DataType) -> Any:
    try:
        if isinstance(kind, WHOLE_NUMBERS):
            return int(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise StopPipeline(f"{text!r} is neither a date, a time (2026-11-30T12:00) nor a whole number") from None
    return moment.date() if isinstance(kind, DateType) else moment.astimezone()


def _after(value: Any, kind: DataType) -> Any:
    """Return a value after the largest one."""
    if value is None:
        return None
    if isinstance(kind, WHOLE_NUMBERS):
        return value + 1
    return value + (timedelta(days=1) if isinstance(kind, DateType) else timedelta(microseconds=1))


def _step(value: Any, every: float, kind: DataType) -> Any:
    if isinstance(kind, WHOLE_NUMBERS):
        return value + max(1, round(every))
    if isinstance(value, date) and isinstance(kind, DateType):
        return value + timedelta(days=max(1, round(every / 86_400)))
    return value + timedelta(seconds=every)
