"""Keyed: changes as the SQL that brings them into a table with a key, with their counts and dead letters."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.deadletters import rejected
from pipelines.facts import bounds, folded_count, key_among
from pipelines.fold import at, each, fold, newest, without_outdated
from pipelines.frames import persisted, viewed
from pipelines.identifiers import quote
from pipelines.inherit import inherit, orphans
from pipelines.merge import FEW_ROWS, NO_SETTINGS, PLANNED_ONCE, MergePlan, append_sql, commit, merge_sql
from pipelines.part import KEPT_OFFSETS, Changes, Part, Ready
from pipelines.sieve import PARAMETER


@contextmanager
def ready(changes: Changes) -> Iterator[Ready]:
    """What is to be committed, within the block."""
    part, facts, shape, keys = changes.part, changes.facts, changes.shape, changes.keys
    cleared, unavailable = changes.truncated_lsn, facts.incomplete > 0
    with ExitStack() as held:
        with part.outcome.stage("fold"):
            folded, count = _folded(changes, held)
        letters, lost = [], 0
        if unavailable:
            present = part.session.table(changes.table.sql_name).select(*map(quote, keys))
            lacking = held.enter_context(persisted(orphans(folded, shape, present), part.few))
            lost = lacking.count()
            letters = [rejected(part.raw, lacking)] if lost else []
        empty = next(changes.table.summaries(), None) is None
        prunable = cleared is None and not empty
        among = key_among(facts, shape, keys) if prunable else None
        slots = changes.slots if prunable and among is None else None
        plan = MergePlan(
            target=changes.table.sql_name,
            changes="",
            columns=shape.column_names,
            keys=keys,
            kept=tuple(c.name for c in shape.toastable) if unavailable else (),
            bounds=bounds(facts, shape, keys) if cleared is None else None,
            among=among,
            slots=slots,
            truncated_lsn=cleared,
            resynced_from=changes.resynced_from,
        )
        plan = replace(plan, changes=held.enter_context(viewed(folded, part.seen.topic)))
        write = partial(
            commit,
            part.session,
            append_sql(plan) if empty else merge_sql(plan),
            settings=_settings(part, one_task=empty or among is not None or slots is not None),
            parameters={PARAMETER: slots.sieve(facts.taken)} if slots is not None else None,
        )
        yield Ready(write, changes.counts(count, lost), letters)


def _folded(changes: Changes, held: ExitStack) -> tuple[DataFrame, int]:
    """One row a key, and how many. What they are made of is kept as long as ``held``."""
    part, facts, shape, keys = changes.part, changes.facts, changes.shape, changes.keys
    unavailable = facts.incomplete > 0
    good = without_outdated(changes.good, keys) if facts.replayed else changes.good
    if part.versions is None and not unavailable and facts.distinct is None:
        positions = held.enter_context(persisted(newest(good, keys)))
        count = positions.count()
        kept = good if count == facts.live and changes.settled else at(good, positions)
        # As many files are written as there are partitions, where nothing is to be merged with.
        return each(kept, shape).coalesce(part.session.sparkContext.defaultParallelism), count
    if unavailable:
        good = inherit(good, shape, keys, part.session.table(changes.table.sql_name))
    # From before a change of the key a row's events may be on several partitions, where its old key wasn't used.
    order = None if part.versions is None else F.struct("lsn", "offset")
    folded = fold(good, shape, keys, unavailable, order)
    if unavailable:
        folded = held.enter_context(persisted(folded, part.few))
    listed = facts.distinct is not None and changes.settled
    return folded, facts.distinct if listed else folded_count(good, keys)


def _settings(part: Part, one_task: bool) -> Mapping[str, str]:
    """How Spark runs the merge. ``one_task``: so little of the table is read that one would do, for few changes."""
    if part.few and one_task:
        return FEW_ROWS
    return PLANNED_ONCE if part.seen.rows <= KEPT_OFFSETS else NO_SETTINGS
