"""Apart: a batch into a large table, of which the rows that it has and those that it hasn't are written by a statement
each.

A MERGE that inserts is an outer join, for which Spark shuffles and sorts all of the table that it can't prune. One that
only updates and deletes is an inner join, for which the changes are sent to where the table is read; but then somebody
must know which keys are new. Both commits go to a branch, and are seen at once. See
infra/decisions/027-large-tables.md.
"""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from pipelines.frames import persisted, viewed
from pipelines.iceberg import LakeTable
from pipelines.merge import MergePlan, append_sql, commit, configured, known_sql, matched_sql

# From so many rows on that would be shuffled, reading their keys once more costs less.
LARGE_ROWS = 5_000_000
# What is sent to every task that reads the table; more than that is shuffled, as with a MERGE.
BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "256m"}
BRANCH = "lakehouse_batch"


def is_large(session: SparkSession, table: LakeTable, plan: MergePlan) -> bool:
    """Whether so much of the table would be shuffled for a MERGE that this way is the cheaper one."""
    if plan.truncated_lsn is not None or plan.among is not None or table.snapshot_id is None:
        return False
    if int(table.summary.get("total-records", 0)) < LARGE_ROWS:
        return False
    return table.has_within(session._jvm, plan.bounds or {}, LARGE_ROWS)


def write(
    session: SparkSession, table: LakeTable, plan: MergePlan, changed: int, name: str, summary: Mapping[str, str]
) -> None:
    """Bring the plan's changes, of ``changed`` keys, into the table; what is seen last carries ``summary``. The changes
    are read several times. ``name``: of the topic, which a view is called after.

    Killed amid it, nothing is seen, and the next time begins anew.
    """
    with configured(session, BROADCAST), persisted(session.sql(known_sql(plan))) as known:
        count = known.count()
        if count == 0:
            commit(session, append_sql(plan), summary)
        elif count == changed:
            commit(session, matched_sql(plan), summary)
        else:
            with viewed(known, f"{name} known") as view, table.beside(BRANCH) as branch:
                beside = replace(plan, target=branch)
                commit(session, matched_sql(beside), {})
                commit(session, append_sql(beside, view), summary)
