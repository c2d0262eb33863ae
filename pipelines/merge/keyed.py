"""Keyed: changes as the SQL that brings them into a table with a key, with their counts and dead letters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.changes.key_filter import MOST_BUCKETS, PARAMETER, KeyFilter
from pipelines.changes.stats import folded_count
from pipelines.dead_letters.store import rejected_records
from pipelines.lake.commit import NO_SETTINGS, commit
from pipelines.merge.append import snapshot_without
from pipelines.merge.changes import MergeInput, PreparedWrite
from pipelines.merge.fold import at, each, fold, newest, without_outdated
from pipelines.merge.inherit import all_known, inherit, lacks, orphans
from pipelines.merge.pruning import Pruning, key_filter_for, prune_by_keys
from pipelines.merge.statement import FEW_ROWS, PLANNED_ONCE, WRITTEN_IN_PLACE, MergePlan, extend, merge_sql
from pipelines.spark.dataframes import keep_with_stats, persisted, release, viewed
from pipelines.spark.session import configured
from pipelines.sql import quote

# A table with fewer rows than so many times the keys that are changed is read as it is.
ROWS_PER_KEY = 2


@dataclass(frozen=True)
class Folded:
    """One row a key, as of :mod:`pipelines.merge.fold`, ``count`` many. ``keyed`` has every such key in its ``row``.
    ``lacks``: what lacks an unchanged value, as of :func:`pipelines.merge.inherit.lacks`; None: no change did.
    """

    rows: DataFrame
    count: int
    keyed: DataFrame
    lacks: Row | None = None


@contextmanager
def ready(changes: MergeInput) -> Iterator[PreparedWrite]:
    """What is to be committed, within the block."""
    part, facts, shape, keys = changes.part, changes.facts, changes.shape, changes.keys
    cleared, unavailable = changes.truncated_lsn, facts.incomplete > 0
    with ExitStack() as held:
        where = Pruning() if cleared is not None else prune_by_keys(facts, shape, keys, changes.asked.ruler)
        with part.outcome.stage("fold"):
            folded = _folded(changes, where, held)
        empty = next(changes.table.summaries(), None) is None
        prunable = cleared is None and not empty
        since = snapshot_without(changes, folded.keyed) if prunable else None
        sifted = prunable and where.among is None and since is None
        slots, taken = _sifted(changes, folded) if sifted else (None, ())
        where = replace(where, slots=slots)
        parameters = {PARAMETER: slots.sieve(taken)} if slots is not None else None
        letters, lost = [], 0
        if folded.lacks is not None:
            with part.outcome.stage("unchanged"):
                present = _concerned(changes, where, keys, parameters)
                with configured(part.session, FEW_ROWS if part.few else NO_SETTINGS):
                    known = all_known(folded.rows, shape, present, folded.lacks, part.few)
                if not known:
                    lacking = held.enter_context(persisted(orphans(folded.rows, shape, present), part.few))
                    lost = lacking.count()
                    letters = [rejected_records(part.raw, lacking)] if lost else []
        plan = MergePlan(
            target=changes.table.sql_name,
            changes="",
            columns=shape.column_names,
            keys=keys,
            kept=tuple(c.name for c in shape.toastable) if unavailable else (),
            pruning=where,
            truncated_lsn=cleared,
            resynced_from=changes.resynced_from,
        )
        plan = replace(plan, changes=held.enter_context(viewed(folded.rows, part.seen.topic)))
        new = empty or since is not None
        settings = _settings(changes, one_task=new or where.among is not None or slots is not None)
        if new:
            write = partial(extend, part.session, plan, tuple(changes.table.column_types), since, settings=settings)
        else:
            write = partial(commit, part.session, merge_sql(plan), settings=settings, parameters=parameters)
        yield PreparedWrite(write, changes.counts(folded.count, lost), letters)


def _concerned(
    changes: MergeInput, where: Pruning, columns: Sequence[str], parameters: Mapping[str, Any] | None = None
) -> DataFrame:
    """Those of the table's rows that changes may concern."""
    conditions = " AND ".join(where.conditions("t")) or "true"
    statement = f"SELECT {', '.join(map(quote, columns))} FROM {changes.table.sql_name} AS t WHERE {conditions}"
    return changes.part.session.sql(statement, dict(parameters) if parameters else None)


def _folded(changes: MergeInput, where: Pruning, held: ExitStack) -> Folded:
    """What it is made of is kept as long as ``held``."""
    part, facts, shape, keys = changes.part, changes.facts, changes.shape, changes.keys
    unavailable = facts.incomplete > 0
    good = without_outdated(changes.good, keys) if facts.replayed else changes.good
    if part.versions is None and not unavailable and facts.distinct is None:
        positions = held.enter_context(persisted(newest(good, keys)))
        count = positions.count()
        kept = good if count == facts.live and changes.settled else at(good, positions)
        # As many files are written as there are partitions, where nothing is to be merged with.
        rows = each(kept, shape).coalesce(part.session.sparkContext.defaultParallelism)
        return Folded(rows, count, positions)
    if facts.inheriting:
        # A row that has left its key was deleted there in this batch.
        good = inherit(good, shape, keys, _concerned(changes, where, [*shape.column_names, "_lsn"]))
    # From before a change of the key a row's events may be on several partitions, where its old key wasn't used.
    order = None if part.versions is None else F.struct("lsn", "offset")
    folded, told = fold(good, shape, keys, unavailable, order), None
    if unavailable:
        folded, told = keep_with_stats(folded, lacks(shape, keys), part.few)
        held.callback(release, folded)
    listed = facts.distinct is not None and changes.settled
    return Folded(folded, facts.distinct if listed else folded_count(good, keys), good, told)


def _sifted(changes: MergeInput, folded: Folded) -> tuple[KeyFilter | None, Iterable[int]]:
    """By what the table's rows are sifted, and which slots the changes have. Of many changes this is asked only where
    it leaves out most rows, and these are more than the keys.
    """
    if not changes.part.many:
        return changes.asked.slots, changes.facts.taken
    count = folded.count
    worth = count <= MOST_BUCKETS // 2 and changes.table.rows >= ROWS_PER_KEY * count
    slots = key_filter_for(changes.shape, changes.keys, changes.table, count) if worth else None
    return slots, () if slots is None else folded.keyed.agg(F.collect_set(slots.slot(F.col("row")))).collect()[0][0]


def _settings(changes: MergeInput, one_task: bool) -> Mapping[str, str]:
    """How Spark runs the merge. ``one_task``: so little of the table is read that one would do, for few changes."""
    part = changes.part
    if part.few and one_task:
        return FEW_ROWS
    if not part.many:
        return PLANNED_ONCE
    # Otherwise each task would write to each partition, or deletes for each data file.
    alone = changes.table.deletes_together and not changes.table.partitioned
    return WRITTEN_IN_PLACE if alone else NO_SETTINGS
