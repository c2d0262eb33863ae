"""Try another definition of a derived table on a branch, beside the rows that readers see.

It is computed of the snapshots of which the table is now. So what differs is the definition's doing, and no change of
the inputs between the two. The branch stays as it was computed until it is removed or tried once more.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.derived.anew import computed_anew
from pipelines.derived.compare import Keys, computed, differing, told
from pipelines.derived.inputs import Origin, Snapshot, definition, look_up, origin_of, show
from pipelines.derived.outcome import DerivedOutcome
from pipelines.derived.setup import DerivedSetup
from pipelines.derived.write import write
from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.lake.refs import MAIN, create_branch, remove_branch
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import PIPELINE
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.derived import DerivedSpec
from pipelines.sql import quote

_ROWS, _MISSING, _EXTRA, _DIFFERING = "__rows", "__missing", "__extra", "__differing"


@dataclass(frozen=True)
class Trial:
    """What another definition makes of a table.

    ``rows``: that it gives; ``missing`` of these the table lacks, ``extra`` rows the table has too much, ``differing``
    have other values; ``columns``: column of both to how many rows differ in it; ``added``, ``dropped``: columns that
    only one of them has; ``examples``: some rows that differ.
    """

    table: str
    branch: str
    rows: int = 0
    missing: int = 0
    extra: int = 0
    differing: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    examples: tuple[dict[str, Any], ...] = ()


def try_out(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, branch: str, examples: int) -> Trial:
    """Compute a table by ``spec`` on a branch, and return how it differs from what readers see. Raises StopPipeline.

    Columns that the table lacks are given to it: what readers see has no value in them.
    """
    own, lake = session.newSession(), Lake(session)
    table, origin = _known(lake, spec, branch)
    made = computed_anew(own, spec, look_up(lake, spec), origin, protected)
    before = set(table.column_types)
    trial = _compared(own, spec, table, made.rows, Trial(spec.table, branch), examples)
    DerivedSetup(spec, None, protected).evolve(table, lake.schema_of(made.rows))
    remove_branch(table, branch)
    tried = create_branch(table, branch)
    summary = {PIPELINE: "trial", **origin.summary()}
    write(own, spec, tried, differing(own, spec, made.rows, tried, Keys(None)), summary)
    added = tuple(name for name in made.rows.columns if name not in before)
    return replace(trial, added=added, dropped=tuple(sorted(before - set(made.rows.columns))))


def discard(session: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, branch: str) -> bool:
    """Remove a branch, with the columns that only it had; return whether the table had it. Raises StopPipeline.

    ``spec``: the table's own.
    """
    own, lake = session.newSession(), Lake(session)
    table = lake.table(*spec.name)
    if branch == MAIN:
        raise StopPipeline(f"{MAIN} is what readers of {spec.table} see: it isn't a branch that was tried")
    if table is None or branch not in table.branches:
        return False
    remove_branch(table, branch)
    if table.branches == {MAIN}:
        inputs = look_up(lake, spec)
        show(own, inputs, {alias: Snapshot.of(each) for alias, each in inputs.items()}, {})
        DerivedSetup(spec, None, protected).tidy(table, computed(own, spec, protected), DerivedOutcome())
    return True


def _known(lake: Lake, spec: DerivedSpec, branch: str) -> tuple[LakeTable, Origin]:
    """Return the table, and the definition as of the snapshots that its newest commit names. Raises StopPipeline."""
    table = lake.table(*spec.name)
    origin = origin_of(table)
    if table is None or origin is None:
        raise StopPipeline(
            f"{spec.table} has no rows yet to compare with: `make up PROFILES=events`, and wait for them"
        )
    if branch == MAIN:
        raise StopPipeline(f"{MAIN} is what readers of {spec.table} see: give the branch another name")
    known = {each.uuid: each for each in origin.snapshots.values()}
    # An input that the table wasn't made of so far is read as it is now.
    inputs = {alias: known.get(each.uuid) or Snapshot.of(each) for alias, each in look_up(lake, spec).items()}
    return table, Origin(definition(spec), inputs)


def _compared(
    session: SparkSession, spec: DerivedSpec, table: LakeTable, rows: DataFrame, trial: Trial, examples: int
) -> Trial:
    """Return what differs, column by column."""
    lacking = [name for name in spec.key if name not in table.column_types]
    if lacking:
        raise StopPipeline(f"{spec.table} has no column {lacking[0]}, which would be in its key: that is another table")
    both = [name for name in rows.columns if name in table.column_types and name not in spec.key]
    stored = session.sql(f"SELECT * FROM {table.sql_name} VERSION AS OF {table.snapshot_id}")
    new = _prefixed(rows, "n_", (*spec.key, *both)).withColumn("__new", F.lit(True))
    old = _prefixed(stored, "o_", (*spec.key, *both)).withColumn("__old", F.lit(True))
    is_new, is_old = F.col("__new").isNotNull(), F.col("__old").isNotNull()
    equal = {name: F.col(quote(f"n_{name}")).eqNullSafe(F.col(quote(f"o_{name}"))) for name in (*spec.key, *both)}
    differ = {name: is_new & is_old & ~equal[name] for name in both}
    joined = new.join(old, [equal[name] for name in spec.key], "full_outer")
    anything = F.lit(False)
    for each in differ.values():
        anything = anything | each
    found = joined.select(
        *(F.coalesce(F.col(quote(f"n_{name}")), F.col(quote(f"o_{name}"))).alias(name) for name in spec.key),
        *(F.struct(F.col(quote(f"o_{name}")).alias("now"), F.col(quote(f"n_{name}")).alias("tried")).alias(f"v_{name}")
          for name in both),
        *(each.alias(f"d_{name}") for name, each in differ.items()),
        is_new.alias(_ROWS), (is_new & ~is_old).alias(_MISSING), (is_old & ~is_new).alias(_EXTRA),
        anything.alias(_DIFFERING),
    ).persist()  # fmt: skip
    try:
        asked = [_ROWS, _MISSING, _EXTRA, _DIFFERING, *(f"d_{name}" for name in both)]
        counts = found.agg(*(F.count_if(F.col(quote(name))).alias(name) for name in asked)).collect()[0].asDict()
        shown = found.where(F.expr(f"{_MISSING} OR {_EXTRA} OR {_DIFFERING}")).limit(examples).collect()
    finally:
        found.unpersist()
    return replace(
        trial, rows=counts[_ROWS], missing=counts[_MISSING], extra=counts[_EXTRA], differing=counts[_DIFFERING],
        columns={name: counts[f"d_{name}"] for name in both},
        examples=tuple(_example(spec, both, row) for row in shown),
    )  # fmt: skip


def _prefixed(rows: DataFrame, prefix: str, names: tuple[str, ...]) -> DataFrame:
    return rows.select(*(F.col(quote(name)).alias(f"{prefix}{name}") for name in names))


def _example(spec: DerivedSpec, both: list[str], row: Any) -> dict[str, Any]:
    kind = "missing" if row[_MISSING] else "extra" if row[_EXTRA] else "differs"
    found: dict[str, Any] = {"kind": kind, "key": {name: told(row[name]) for name in spec.key}}
    if kind == "differs":
        found["values"] = {
            name: {"now": told(row[f"v_{name}"]["now"]), "tried": told(row[f"v_{name}"]["tried"])}
            for name in both if row[f"d_{name}"]
        }  # fmt: skip
    return found
