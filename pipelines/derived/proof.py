"""Compute a derived table once more, of the snapshots that its newest commit names, and compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.derived.anew import computed_anew
from pipelines.derived.compare import ACTION, DELETE, FILE, INSERT, PLACE, TIMES, Keys, differing, told
from pipelines.derived.inputs import Origin, definition, look_up, origin_of
from pipelines.errors import StopPipeline
from pipelines.lake.arrow_schema import for_spark
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote


@dataclass(frozen=True)
class DerivedProof:
    """What was found of one derived table, as of its newest snapshot.

    ``inputs``: table to the snapshot of which it is computed. ``missing``: rows that it lacks, ``extra`` those that it
    has too much, ``differing`` those with other values; ``examples``: some of these. ``problem``: why it can't be
    compared.
    """

    table: str
    snapshot: int | None = None
    inputs: dict[str, int | None] = field(default_factory=dict)
    rows: int = 0
    missing: int = 0
    extra: int = 0
    differing: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None

    @property
    def equal(self) -> bool:
        """Whether the table is what its query gives."""
        return self.problem is None and not (self.missing or self.extra or self.differing)


def prove(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, examples: int) -> DerivedProof:
    """Compare one derived table with what its query gives. Up to so many ``examples`` have their values."""
    lake, own = Lake(session), session.newSession()
    table = lake.table(*spec.name)
    origin = origin_of(table)
    if table is None or origin is None:
        return DerivedProof(
            spec.table, problem="it wasn't computed yet: do the streams run (`make up PROFILES=events`)?"
        )
    told = {
        each.table: origin.snapshots[alias].snapshot for alias, each in spec.inputs.items() if alias in origin.snapshots
    }
    known = DerivedProof(spec.table, table.snapshot_id, told)
    try:
        inputs = look_up(lake, spec)
        problem = _problem(spec, inputs, origin)
        if problem is not None:
            return replace(known, problem=problem)
        return _compared(own, spec, table, computed_anew(own, spec, inputs, origin, protected).rows, known, examples)
    except StopPipeline as error:
        return replace(known, problem=str(error))


def _problem(spec: DerivedSpec, inputs: Mapping[str, LakeTable], origin: Origin) -> str | None:
    """Return why the table can't be computed once more."""
    if origin.definition != definition(spec):
        return "it is of another definition than its spec has now: the streams compute it anew, then it can be compared"
    for alias, table in inputs.items():
        at = origin.snapshots[alias]
        if table.uuid != at.uuid:
            return f"{spec.inputs[alias].table} is another table by now: the streams compute it anew"
        if at.snapshot is not None and at.snapshot not in table.snapshot_times():
            return (
                f"snapshot {at.snapshot} of {spec.inputs[alias].table} has expired; the next commit names a newer one"
            )
    return None


def _compared(
    session: SparkSession, spec: DerivedSpec, table: LakeTable, rows: DataFrame, known: DerivedProof, examples: int
) -> DerivedProof:
    different = differing(session, spec, rows, table, Keys(None), pinned=True).persist()
    try:
        counts = {row[ACTION]: row["count"] for row in different.groupBy(ACTION).count().collect()}
        shown = for_spark(different.drop(FILE, PLACE, TIMES).limit(examples).toArrow()).to_pylist()
    finally:
        different.unpersist()
    number = _pinned(session, table).count()
    missing, extra = counts.get(INSERT, 0), counts.get(DELETE, 0)
    return replace(
        known, rows=number, missing=missing, extra=extra, differing=sum(counts.values()) - missing - extra,
        examples=[_example(session, spec, table, row) for row in shown],
    )  # fmt: skip


def _example(session: SparkSession, spec: DerivedSpec, table: LakeTable, row: dict[str, Any]) -> dict[str, Any]:
    """Return one difference: its key, and the values that differ, as computed and as the table has them."""
    kind = {INSERT: "missing", DELETE: "extra"}.get(row[ACTION], "differs")
    key = {name: told(row[name]) for name in spec.key}
    if kind != "differs":
        return {"kind": kind, "key": key}
    same = [F.col(quote(name)).eqNullSafe(F.lit(row[name])) for name in spec.key]
    found = _pinned(session, table)
    for each in same:
        found = found.where(each)
    rows: list[dict[str, Any]] = for_spark(found.limit(1).toArrow()).to_pylist()
    has = rows[0] if rows else {}
    values = {
        name: {"computed": told(value), "table": told(has.get(name))}
        for name, value in row.items()
        if name not in (*spec.key, ACTION) and value != has.get(name)
    }
    return {"kind": kind, "key": key, "values": values}


def _pinned(session: SparkSession, table: LakeTable) -> DataFrame:
    """Return the table's rows as of the snapshot that it had when it was looked up."""
    return session.sql(f"SELECT * FROM {table.sql_name} VERSION AS OF {table.snapshot_id}")
