"""Write the folded changes of a batch into the table, in one commit that carries the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.lake.commit import NO_SETTINGS, commit_settings
from pipelines.ledger.rows import written_before
from pipelines.merge.fold import KEEP, OP
from pipelines.merge.pruning import Pruning
from pipelines.schema.technical import SNAPSHOT_READ, TECHNICAL
from pipelines.sources.base.change_rows import DELETE
from pipelines.spark.session import configured
from pipelines.sql import quote

NEWER = f"c._lsn >= t._lsn OR c._op = '{SNAPSHOT_READ}' OR t._op = '{SNAPSHOT_READ}'"


@dataclass(frozen=True)
class MergePlan:
    """The parts of a merge statement.

    ``toastable``: columns whose value in the table may have to stay (``__keep`` of :mod:`pipelines.merge.fold`).
    ``pruning``: which rows of the table needn't be read for it. ``truncated``: rows older than this log position are
    deleted.
    """

    target: str
    changes: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    toastable: tuple[str, ...] = ()
    pruning: Pruning = field(default_factory=Pruning)
    truncated: int | None = None
    resynced_from: Mapping[int, int] = field(default_factory=dict)


def merge_sql(plan: MergePlan) -> str:
    """Return the MERGE statement: deletes, updates and inserts; an older event never replaces a newer row.

    What is older the log position tells, but not of what a snapshot read: that is as new as its place in the topic,
    while a change that was being made meanwhile may have an older position, and comes after it.
    """
    return _merge(plan, *_matched(plan), _insert(plan, " AND ".join(_insertable(plan))))


def exchange_sql(plan: MergePlan) -> str:
    """Return the MERGE statement for a table without a key: rows of the table are deleted, and others inserted.

    Its ``keys`` are the position of the record that wrote a row.
    """
    return _merge(plan, f"WHEN MATCHED AND c.{OP} = '{DELETE}' THEN DELETE", _insert(plan, f"c.{OP} <> '{DELETE}'"))


def append_rows(
    session: SparkSession,
    plan: MergePlan,
    columns: Iterable[str],
    since: int | None,
    summary: Mapping[str, str],
    settings: Mapping[str, str] = NO_SETTINGS,
) -> None:
    """Append the changes of ``plan`` to a table that has none of their keys as of the snapshot ``since``.

    ``columns``: the table's. The commit is as :func:`pipelines.lake.commit.commit` makes it. It fails if rows were
    added after that snapshot; None: if there are any.
    """
    own = {*plan.columns, *TECHNICAL}
    values = ", ".join(f"c.{quote(name)}" if name in own else f"NULL AS {quote(name)}" for name in columns)
    new = session.sql(f"SELECT {values} FROM {plan.changes} AS c WHERE {' AND '.join(_insertable(plan))}")
    writer = new.writeTo(plan.target).option("isolation-level", "serializable")
    if since is not None:
        writer = writer.option("validate-from-snapshot-id", since)
    with configured(session, commit_settings(summary, settings)):
        # Iceberg looks at what was committed meanwhile only where rows are replaced, though they be none.
        writer.overwrite(F.lit(False))


def _merge(plan: MergePlan, *actions: str) -> str:
    lines = [f"MERGE INTO {plan.target} AS t USING {plan.changes} AS c ON {_match_condition(plan)}", *actions]
    if plan.truncated is not None:
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND t._lsn < {plan.truncated:d} THEN DELETE")
    return "\n".join(lines)


def _match_condition(plan: MergePlan) -> str:
    """Return the condition for a row of the table that has a change's key."""
    same = [f"t.{quote(k)} = c.{quote(k)}" for k in plan.keys]
    return " AND ".join([*same, *plan.pruning.conditions("t")])


def _matched(plan: MergePlan) -> list[str]:
    reread = [written_before(plan.resynced_from, "t.")] if plan.resynced_from else []
    newer = f"({' OR '.join([NEWER, *reread])})"
    every = [*plan.columns, *TECHNICAL]
    assignments = ", ".join(f"t.{quote(name)} = {_new_value(name, plan.toastable)}" for name in every)
    return [
        f"WHEN MATCHED AND {newer} AND c.{OP} = '{DELETE}' THEN DELETE",
        f"WHEN MATCHED AND {newer} THEN UPDATE SET {assignments}",
    ]


def _insertable(plan: MergePlan) -> list[str]:
    """Return the conditions for a change that makes a row where there was none.

    It isn't a delete, and lacks no value.
    """
    return [f"c.{OP} <> '{DELETE}'", *(f"NOT c.{quote(KEEP)}.{quote(name)}" for name in plan.toastable)]


def _insert(plan: MergePlan, condition: str) -> str:
    every = [*plan.columns, *TECHNICAL]
    names = ", ".join(quote(name) for name in every)
    values = ", ".join(f"c.{quote(name)}" for name in every)
    return f"WHEN NOT MATCHED AND {condition} THEN INSERT ({names}) VALUES ({values})"


def _new_value(name: str, toastable: Sequence[str]) -> str:
    new = f"c.{quote(name)}"
    return f"CASE WHEN c.{quote(KEEP)}.{quote(name)} THEN t.{quote(name)} ELSE {new} END" if name in toastable else new
