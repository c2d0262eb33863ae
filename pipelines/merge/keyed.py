"""Write changes into a table with a key: fold them to one row a key, then append what is new or merge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.changes.key_filter import PARAMETER, KeyFilter
from pipelines.changes.stats import folded_count
from pipelines.dead_letters.store import rejected_records
from pipelines.lake.commit import NO_SETTINGS, commit
from pipelines.limits import Limits
from pipelines.merge.append import snapshot_without
from pipelines.merge.changes import MergeInput, PreparedWrite, Strategy
from pipelines.merge.fold import at_positions, every_event, fold, newest_positions, without_outdated
from pipelines.merge.inherit import all_known, inherit, missing_counts, orphans
from pipelines.merge.pruning import Pruning, key_filter_for, prune_by_keys
from pipelines.merge.statement import MergePlan, append_rows, merge_sql
from pipelines.spark.dataframes import as_view, keep_with_stats, persisted, release
from pipelines.spark.session import configured
from pipelines.sql import quote


@dataclass(frozen=True)
class FoldedChanges:
    """The folded changes of a batch: one row a key (see :mod:`pipelines.merge.fold`), ``count`` many.

    ``keyed`` has every such key in its ``row``. ``missing``: what lacks an unchanged value (see
    :func:`pipelines.merge.inherit.missing_counts`); None: no change did.
    """

    rows: DataFrame
    count: int
    keyed: DataFrame
    missing: Row | None = None


@contextmanager
def prepare(changes: MergeInput, strategy: Strategy, limits: Limits) -> Iterator[PreparedWrite]:
    """Prepare the write of changes to a table with a key. What is prepared holds within the block."""
    batch, stats, shape, keys = changes.batch, changes.stats, changes.shape, changes.keys
    with ExitStack() as resources:
        where = Pruning()
        if changes.truncated is None:
            where = prune_by_keys(stats, shape, keys, changes.request.histogram)
        with batch.outcome.stage("fold"):
            folded = _folded(changes, strategy, where, resources)
        empty = changes.table.snapshot_id is None
        since = snapshot_without(changes, folded.keyed, strategy.near_rows) if strategy.prune else None
        key_filter: KeyFilter | None = None
        taken: Iterable[int] = ()
        if strategy.filter_keys is not None and where.listed is None and since is None:
            key_filter, taken = _key_filter(changes, strategy, folded, limits)
        where = replace(where, key_filter=key_filter)
        parameters = {PARAMETER: key_filter.bitmap(taken)} if key_filter is not None else None
        letters, lost = [], 0
        if folded.missing is not None:
            with batch.outcome.stage("unchanged"):
                present = _concerned_rows(changes, where, keys, parameters)
                with configured(batch.session, strategy.narrow if strategy.collect_few else NO_SETTINGS):
                    known = all_known(folded.rows, shape, present, folded.missing, strategy.collect_few)
                if not known:
                    lacking = orphans(folded.rows, shape, present)
                    lacking = resources.enter_context(persisted(lacking, strategy.collect_few))
                    lost = lacking.count()
                    letters = [rejected_records(batch.raw, lacking)] if lost else []
        plan = MergePlan(
            target=changes.table.sql_name,
            changes=resources.enter_context(as_view(folded.rows, batch.profile.topic)),
            columns=shape.column_names,
            keys=keys,
            toastable=tuple(c.name for c in shape.toastable) if stats.incomplete else (),
            pruning=where,
            truncated=changes.truncated,
            resynced_from=changes.resynced_from,
        )
        new = empty or since is not None
        narrow = new or where.listed is not None or key_filter is not None
        settings = strategy.narrow if narrow else strategy.wide
        if new:
            write = partial(
                append_rows, batch.session, plan, tuple(changes.table.column_types), since, settings=settings
            )
        else:
            write = partial(commit, batch.session, merge_sql(plan), settings=settings, parameters=parameters)
        yield PreparedWrite(write, changes.counts(folded.count, lost), letters)


def _concerned_rows(
    changes: MergeInput, where: Pruning, columns: Sequence[str], parameters: Mapping[str, Any] | None = None
) -> DataFrame:
    """Return the table's rows that changes may concern."""
    conditions = " AND ".join(where.conditions("t")) or "true"
    statement = f"SELECT {', '.join(map(quote, columns))} FROM {changes.table.sql_name} AS t WHERE {conditions}"
    return changes.batch.session.sql(statement, dict(parameters) if parameters else None)


def _folded(changes: MergeInput, strategy: Strategy, where: Pruning, resources: ExitStack) -> FoldedChanges:
    """Fold the changes. What the result is made of is kept as long as ``resources``."""
    batch, stats, shape, keys = changes.batch, changes.stats, changes.shape, changes.keys
    good = without_outdated(changes.good, keys) if stats.replayed else changes.good
    if strategy.fold_positions:
        positions = resources.enter_context(persisted(newest_positions(good, keys)))
        count = positions.count()
        chosen = good if count == stats.live and changes.complete else at_positions(good, positions)
        # As many files are written as there are partitions, where nothing is to be merged with.
        rows = every_event(chosen, shape).coalesce(batch.session.sparkContext.defaultParallelism)
        return FoldedChanges(rows, count, positions)
    if stats.inheriting:
        # A row that has left its key was deleted there in this batch.
        good = inherit(good, shape, keys, _concerned_rows(changes, where, [*shape.column_names, "_lsn"]))
    # From before a change of the key a row's events may be on several partitions, where its old key wasn't used.
    order = None if batch.versions is None else F.struct("log_position", "offset")
    incomplete = stats.incomplete > 0
    folded, counts = fold(good, shape, keys, incomplete, order), None
    if incomplete:
        folded, counts = keep_with_stats(folded, missing_counts(shape, keys), strategy.collect_few)
        resources.callback(release, folded)
    if stats.distinct is not None and changes.complete:
        return FoldedChanges(folded, stats.distinct, good, counts)
    return FoldedChanges(folded, folded_count(good, keys), good, counts)


def _key_filter(
    changes: MergeInput, strategy: Strategy, folded: FoldedChanges, limits: Limits
) -> tuple[KeyFilter | None, Iterable[int]]:
    """Return the filter of the table's rows, and which of its buckets the changes have.

    Of many changes this is asked only where it leaves out most rows, and these are more than the keys.
    """
    if strategy.filter_keys == "stats":
        return changes.request.key_filter, changes.stats.filter_buckets
    count = folded.count
    worth = count <= limits.filter_buckets // 2 and changes.table.rows >= limits.rows_per_key * count
    key_filter = key_filter_for(changes.shape, changes.keys, changes.table, count, limits) if worth else None
    if key_filter is None:
        return None, ()
    return key_filter, folded.keyed.agg(F.collect_set(key_filter.bucket(F.col("row")))).collect()[0][0]
