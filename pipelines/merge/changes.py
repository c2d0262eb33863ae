"""What a merge is given, and what it hands on to the commit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from pipelines.changes.stats import StatsRequest
from pipelines.changes.topic_batch import TopicBatch
from pipelines.kafka.ranges import Positions
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts, Ledger
from pipelines.schema.columns import TableShape

Write = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True)
class MergeInput:
    """A part's changes that can be merged into its table, which has their columns by now.

    ``good``: rows of :mod:`pipelines.sources.debezium.decode` without a problem, without truncates and what a truncate
    made void; ``facts``, ``asked``: see :mod:`pipelines.changes.stats`. ``truncated_lsn``: rows of the table that are
    older go; None: no truncate is among the changes. ``resynced_from``: where a resync that runs began to read rows
    again. ``settled``: ``good`` has every live row, and none is overtaken but by another of its key.
    """

    part: TopicBatch
    good: DataFrame
    shape: TableShape
    keys: tuple[str, ...]
    facts: Row
    asked: StatsRequest
    table: LakeTable
    truncated_lsn: int | None
    known: Ledger
    resynced_from: Positions
    settled: bool

    def counts(self, taken: int, lost: int) -> Counts:
        """What becomes of the records, if ``taken`` of ``good`` count, ``lost`` of which turn out to be broken."""
        return Counts(
            merged=taken - lost, superseded=self.facts.live - taken, dead_lettered=self.facts.dead + lost,
            tombstones=self.part.seen.tombstones, truncates=self.facts.truncates,
        )  # fmt: skip


@dataclass(frozen=True)
class PreparedWrite:
    """Changes that can be committed: what writes them, given the summary that the commit shall carry, what becomes of
    the records, and the dead letters that were found on the way.
    """

    write: Write
    counts: Counts
    letters: Sequence[DataFrame]
