"""Choose how a batch's changes are written: the one place that does.

A writer is a module with ``prepare``, and a line in ``WRITERS``: whether it takes a batch's changes, and how it
prepares their write. The first that takes them is asked. All pass the same cases (tests/unit/pipelines/mirror/table).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pipelines.lake.commit import NO_SETTINGS
from pipelines.limits import Limits
from pipelines.merge import direct, keyed, keyless
from pipelines.merge.changes import MergeInput, PreparedWrite, Strategy

# For rows of which a look at each stage's outcome, to plan anew, takes longer than a plan that isn't the best.
PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
# Each task writes what it has. Iceberg would have the new rows of a table without partitions be moved to one task,
# whatever their number.
WRITTEN_IN_PLACE = {"spark.sql.iceberg.distribution-mode": "none"}
# And for rows so few that one task takes all of them.
FEW_ROWS = {**PLANNED_ONCE, **WRITTEN_IN_PLACE, "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True)
class Writer:
    """One way to write a batch's changes."""

    name: str
    takes: Callable[[MergeInput, Limits], bool]
    prepare: Callable[[MergeInput, Strategy, Limits], AbstractContextManager[PreparedWrite]]


WRITERS = (
    Writer("keyless", lambda changes, _: not changes.keys, keyless.prepare),
    Writer("direct", direct.takes, direct.prepare),
    Writer("merge", lambda changes, _: bool(changes.keys), keyed.prepare),
)


def prepare(changes: MergeInput, limits: Limits) -> AbstractContextManager[PreparedWrite]:
    """Choose how ``changes`` are written, and prepare that. What is prepared holds within the block."""
    strategy = choose(changes, limits)
    (writer,) = (writer for writer in WRITERS if writer.name == strategy.writer)
    return writer.prepare(changes, strategy, limits)


def choose(changes: MergeInput, limits: Limits) -> Strategy:
    """Choose the strategy by what the batch and the table hold. Pure but for the table's metadata."""
    writer = next(writer.name for writer in WRITERS if writer.takes(changes, limits))
    stats, rows = changes.stats, changes.batch.profile.rows
    few, many = limits.is_few(rows), limits.is_many(rows)
    prune = changes.truncated is None and changes.table.snapshot_id is not None
    # Otherwise each task would write to each partition, or deletes for each data file.
    alone = changes.table.deletes_together and not changes.table.partitioned
    wide = PLANNED_ONCE if not many else WRITTEN_IN_PLACE if alone else NO_SETTINGS
    return Strategy(
        writer=writer,
        fold_positions=changes.batch.versions is None and not stats.incomplete and stats.distinct is None,
        prune=prune,
        near_rows=limits.near_rows if many else 0,
        filter_keys=("keys" if many else "stats") if prune else None,
        collect_few=few,
        narrow=FEW_ROWS if few else wide,
        wide=wide,
    )
