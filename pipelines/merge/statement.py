"""Merge: the folded changes of a batch into the table, in one commit that carries the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.lake.commit import NO_SETTINGS, carrying
from pipelines.ledger.rows import written_before
from pipelines.merge.fold import KEEP, OP
from pipelines.merge.pruning import Pruning
from pipelines.schema.technical import TECHNICAL
from pipelines.sources.base.change_rows import DELETE
from pipelines.spark.session import configured
from pipelines.sql import quote

READ = "r"
NEWER = f"c._lsn >= t._lsn OR c._op = '{READ}' OR t._op = '{READ}'"
# For rows of which a look at each stage's outcome, to plan anew, takes longer than a plan that isn't the best.
PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
# Each task writes what it has. Iceberg would have the new rows of a table without partitions be moved to one task,
# whatever their number.
WRITTEN_IN_PLACE = {"spark.sql.iceberg.distribution-mode": "none"}
# And for rows so few that one task takes all of them.
FEW_ROWS = {**PLANNED_ONCE, **WRITTEN_IN_PLACE, "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class MergePlan:
    """What a merge statement is made of.

    ``kept``: columns whose value in the table may have to stay (``__keep`` of :mod:`pipelines.merge.fold`).
    ``pruning``: which rows of the table needn't be read for it. ``truncated_lsn``: rows older than this go.
    """

    target: str
    changes: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    kept: tuple[str, ...] = ()
    pruning: Pruning = field(default_factory=Pruning)
    truncated_lsn: int | None = None
    resynced_from: Mapping[int, int] = field(default_factory=dict)


def merge_sql(plan: MergePlan) -> str:
    """The MERGE statement: deletes, updates and inserts; an older event never replaces a newer row.

    What is older the log position tells, but not of what a snapshot read: that is as new as its place in the topic,
    while a change that was being made meanwhile may have an older position, and comes after it.
    """
    return _merge(plan, *_matched(plan), _insert(plan, " AND ".join(_insertable(plan))))


def exchange_sql(plan: MergePlan) -> str:
    """The MERGE statement for a table without a key, whose ``keys`` are the position that wrote a row: rows of the
    table are deleted, and others inserted.
    """
    return _merge(plan, f"WHEN MATCHED AND c.{OP} = '{DELETE}' THEN DELETE", _insert(plan, f"c.{OP} <> '{DELETE}'"))


def extend(
    session: SparkSession,
    plan: MergePlan,
    columns: Iterable[str],
    since: int | None,
    summary: Mapping[str, str],
    settings: Mapping[str, str] = NO_SETTINGS,
) -> None:
    """Append the changes of ``plan`` to a table with these ``columns`` that has none of their keys as of the snapshot
    ``since``, in a commit as :func:`commit` makes it. It fails if rows were added after that; None: if there are any.
    """
    own = {*plan.columns, *TECHNICAL}
    values = ", ".join(f"c.{quote(name)}" if name in own else f"NULL AS {quote(name)}" for name in columns)
    new = session.sql(f"SELECT {values} FROM {plan.changes} AS c WHERE {' AND '.join(_insertable(plan))}")
    writer = new.writeTo(plan.target).option("isolation-level", "serializable")
    if since is not None:
        writer = writer.option("validate-from-snapshot-id", since)
    with configured(session, carrying(summary, settings)):
        # Iceberg looks at what was committed meanwhile only where rows are replaced, though they be none.
        writer.overwrite(F.lit(False))


def _merge(plan: MergePlan, *actions: str) -> str:
    lines = [f"MERGE INTO {plan.target} AS t USING {plan.changes} AS c ON {_same(plan)}", *actions]
    if plan.truncated_lsn is not None:
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND t._lsn < {plan.truncated_lsn:d} THEN DELETE")
    return "\n".join(lines)


def _same(plan: MergePlan) -> str:
    """The condition for a row of the table that has a change's key."""
    same = [f"t.{quote(k)} = c.{quote(k)}" for k in plan.keys]
    return " AND ".join([*same, *plan.pruning.conditions("t")])


def _matched(plan: MergePlan) -> list[str]:
    reread = [written_before(plan.resynced_from, "t.")] if plan.resynced_from else []
    newer = f"({' OR '.join([NEWER, *reread])})"
    every = [*plan.columns, *TECHNICAL]
    assignments = ", ".join(f"t.{quote(name)} = {_new_value(name, plan.kept)}" for name in every)
    return [
        f"WHEN MATCHED AND {newer} AND c.{OP} = '{DELETE}' THEN DELETE",
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {assignments}",
    ]


def _insertable(plan: MergePlan) -> list[str]:
    """The conditions for a change that makes a row where there was none: it isn't a delete, and lacks no value."""
    return [f"c.{OP} <> '{DELETE}'", *(f"NOT c.{quote(KEEP)}.{quote(name)}" for name in plan.kept)]


def _insert(plan: MergePlan, condition: str) -> str:
    every = [*plan.columns, *TECHNICAL]
    names = ", ".join(quote(name) for name in every)
    values = ", ".join(f"c.{quote(name)}" for name in every)
    return f"WHEN NOT MATCHED AND {condition} THEN INSERT ({names}) VALUES ({values})"


def _new_value(name: str, kept: Sequence[str]) -> str:
    new = f"c.{quote(name)}"
    return f"CASE WHEN c.{quote(KEEP)}.{quote(name)} THEN t.{quote(name)} ELSE {new} END" if name in kept else new
