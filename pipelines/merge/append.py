"""Append the rows of new keys: nothing has to be planned, shuffled and sorted to be joined with the table.

A batch's changes may all be of rows that their table doesn't have yet, as those of a snapshot are, or those of a table
that is only ever added to. See infra/decisions/057-new-rows-appended.md.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.merge.changes import MergeInput
from pipelines.spark.dataframes import persisted
from pipelines.sql import quote


def snapshot_without(changes: MergeInput, keyed: DataFrame, near_rows: int) -> int | None:
    """Return the newest snapshot of the table, if that has none of the keys that ``keyed`` has in its ``row``.

    None: it may have some, or it would take long to tell. What is appended must be tied to that snapshot.
    ``near_rows``: so many rows of the table may lie between the least and the greatest key of the changes, and be read.
    (What is read in the order of its keys has a few: a batch doesn't end at the same key in every partition.)
    """
    batch, stats, table = changes.batch, changes.stats, changes.table
    if not changes.complete or stats.removals or stats.incomplete:
        return None
    # Of uuids, which may be texts of the source by now, Iceberg 1.11 leaves out files wrongly.
    uuids = {name for name, kind in table.column_types.items() if kind == "uuid"}
    between = {k: pair for k, pair in stats.bounds.items() if k not in uuids}
    if not between:
        return None
    with batch.outcome.stage("new_keys"):
        # Before the look, so that what comes after the look comes after this snapshot as well.
        table.refresh()
        snapshot = table.snapshot_id
        if not table.may_hold(between):
            return snapshot
        if not near_rows:
            return None
        nearby = batch.session.table(table.sql_name)
        for key, (low, high) in between.items():
            nearby = nearby.where(F.col(quote(key)).between(low, high))
        with persisted(nearby.select(*map(quote, changes.keys)).limit(near_rows + 1)) as nearby:
            count = nearby.count()
            return (
                snapshot
                if not count or (count <= near_rows and not _have_common_key(nearby, keyed, changes.keys))
                else None
            )


def _have_common_key(nearby: DataFrame, keyed: DataFrame, keys: tuple[str, ...]) -> bool:
    same = [F.col("row").getField(key) == nearby[quote(key)] for key in keys]
    return bool(keyed.join(F.broadcast(nearby), same, "left_semi").take(1))
