"""The values of a merge: what it is given, how it is to write, and what it hands on to the commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame

from pipelines.changes.stats import BatchStats, StatsRequest
from pipelines.changes.topic_batch import TopicBatch
from pipelines.kafka.ranges import Positions
from pipelines.lake.live_rows import LiveRows
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts, Ledger
from pipelines.ledger.table_ledger import Write
from pipelines.schema.columns import TableShape


@dataclass(frozen=True)
class MergeInput:
    """A batch's changes that can be merged into its table, which has their columns by now.

    ``good``: change rows without a problem, without truncates and what a truncate made void; ``stats``, ``request``:
    see :mod:`pipelines.changes.stats`. ``truncated``: rows of the table that are older than this log position are
    deleted; None: no truncate is among the changes. ``resynced_from``: where a running resync began to read rows again.
    ``complete``: ``good`` has every live row, and none is overtaken but by another of its key. ``live``: what is
    remembered of the table's rows; None: nothing is.
    """

    batch: TopicBatch
    good: DataFrame
    shape: TableShape
    keys: tuple[str, ...]
    stats: BatchStats
    request: StatsRequest
    table: LakeTable
    truncated: int | None
    known: Ledger
    resynced_from: Positions
    complete: bool
    live: LiveRows | None = None

    def counts(self, taken: int, lost: int) -> Counts:
        """Return what becomes of the records, if ``taken`` of ``good`` count, ``lost`` of which turn out broken."""
        return Counts(
            merged=taken - lost, superseded=self.stats.live - taken, dead_lettered=self.stats.dead + lost,
            tombstones=self.batch.profile.tombstones, truncates=self.stats.truncates,
        )  # fmt: skip


@dataclass(frozen=True)
class Strategy:
    """The strategy by which one batch's changes are written (see :mod:`pipelines.merge.strategy`).

    ``writer``: which of the writers takes them. ``fold_positions``: of each key the newest position is found first,
    then its row; else whole rows are folded. ``prune``: rows of the table that no change concerns are left out.
    ``near_rows``: so many rows of the table may be read to find that all keys are new. ``filter_keys``: the buckets of
    the key filter come from the batch's stats, or from its keys; None: there is no filter. ``collect_few``: changes are
    few enough to be sent to where the table is read, in one partition. ``narrow``, ``wide``: the session's settings
    where little of the table is read, and where much is.
    """

    writer: str
    fold_positions: bool
    prune: bool
    near_rows: int
    filter_keys: Literal["stats", "keys"] | None
    collect_few: bool
    narrow: Mapping[str, str]
    wide: Mapping[str, str]


@dataclass(frozen=True)
class PreparedWrite:
    """Changes that can be committed.

    ``write`` writes them, given the summary that the commit shall carry; ``counts``: what becomes of the records;
    ``letters``: the dead letters that were found on the way; ``writer``: by whom.
    """

    write: Write
    counts: Counts
    letters: Sequence[DataFrame]
    writer: str = "merge"
