"""A topic's share of a batch, and what becomes of it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row, SparkSession

from pipelines.changes.stats import Asked
from pipelines.kafka.profile import TopicProfile
from pipelines.lake.table import LakeTable
from pipelines.ledger import entries as ledger
from pipelines.sources.debezium.envelope import TableShape
from pipelines.sources.postgres.schema_log import TableVersions
from pipelines.spark.dataframes import persisted

FEW_RECORDS = 50_000
KEPT_OFFSETS = 100_000
Write = Callable[[Mapping[str, str]], None]


def gathered(records: DataFrame, offsets: int) -> DataFrame:
    """``records`` of so many ``offsets`` in as many partitions as they are worth: not one a Kafka partition, for every
    job on them goes over all of them. Many are left as they were read, in parts that are all alike.
    """
    if offsets > KEPT_OFFSETS:
        return records
    return records.coalesce(1 if offsets <= FEW_RECORDS else records.sparkSession.sparkContext.defaultParallelism)


@contextmanager
def kept(records: DataFrame, offsets: int) -> Iterator[DataFrame]:
    """``records`` of so many ``offsets``, kept for the block once they have been read. Many are read again from Kafka
    instead, each time they are asked for: that takes less time than keeping them, and no memory.
    """
    if offsets > KEPT_OFFSETS:
        yield records
        return
    with persisted(records):
        yield records


@dataclass
class Outcome:
    """What became of a topic's records in a batch. Times in milliseconds, by stage.

    ``skipped``: records that the table had already; ``reread``: records from before the batch that it lacked;
    ``swept``: rows which a resync didn't find in the source any more. ``assumed``: what its records held wasn't looked
    at first, and turned out to be what was expected. ``layout``: what was changed of it;
    ``layout_refused``: why the one of the table's spec can't be had. ``described``: what of its contract was written
    into its metadata; ``broken``: promise of it to how many rows broke it; ``not_enforced``: promise to why it can't be
    asked of the table as it is.
    """

    topic: str
    rows: int = 0
    skipped: int = 0
    reread: int = 0
    swept: int = 0
    counts: ledger.Counts = field(default_factory=ledger.Counts)
    schema_changes: list[str] = field(default_factory=list)
    layout: list[str] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    layout_refused: str | None = None
    broken: dict[str, int] = field(default_factory=dict)
    not_enforced: dict[str, str] = field(default_factory=dict)
    committed: bool = False
    assumed: bool = False
    oldest_commit: float | None = None
    ms: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0) + round((time.monotonic() - started) * 1000)


@dataclass(frozen=True)
class Part:
    """Records of the topic that go into the table in one commit, and the offsets that this commit accounts for.

    ``versions``: of the table that these records are of, where they are from before a change of its key (see
    :mod:`pipelines.evolve.key_change`); None: as the schema log says now. ``whole``: both halves of each row's change
    of its key are among them, or in a table without a key all that was written before them.
    """

    raw: DataFrame
    seen: TopicProfile
    offsets: ledger.Ranges
    batch: int
    session: SparkSession
    outcome: Outcome
    versions: TableVersions | None = None
    whole: bool = False

    @property
    def few(self) -> bool:
        """Whether the records are so few that what has to be planned and started costs more than they do."""
        return self.seen.rows <= FEW_RECORDS

    @property
    def many(self) -> bool:
        """Whether they are so many that what is known of them is worth a pass of its own."""
        return self.seen.rows > KEPT_OFFSETS


@dataclass(frozen=True)
class Changes:
    """A part's changes that can be merged into its table, which has their columns by now.

    ``good``: rows of :mod:`pipelines.sources.debezium.decode` without a problem, without truncates and what a truncate
    made void; ``facts``, ``asked``: see :mod:`pipelines.changes.stats`. ``truncated_lsn``: rows of the table that are
    older go; None: no truncate is among the changes. ``resynced_from``: where a resync that runs began to read rows
    again. ``settled``: ``good`` has every live row, and none is overtaken but by another of its key.
    """

    part: Part
    good: DataFrame
    shape: TableShape
    keys: tuple[str, ...]
    facts: Row
    asked: Asked
    table: LakeTable
    truncated_lsn: int | None
    known: ledger.Ledger
    resynced_from: ledger.Positions
    settled: bool

    def counts(self, taken: int, lost: int) -> ledger.Counts:
        """What becomes of the records, if ``taken`` of ``good`` count, ``lost`` of which turn out to be broken."""
        return ledger.Counts(
            merged=taken - lost, superseded=self.facts.live - taken, dead_lettered=self.facts.dead + lost,
            tombstones=self.part.seen.tombstones, truncates=self.facts.truncates,
        )  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """Changes that can be committed: what writes them, given the summary that the commit shall carry, what becomes of
    the records, and the dead letters that were found on the way.
    """

    write: Write
    counts: ledger.Counts
    letters: Sequence[DataFrame]
