"""The records of one topic in a batch, and what becomes of them."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges
from pipelines.ledger.entries import Counts
from pipelines.limits import Limits
from pipelines.schema.versions import TableVersions
from pipelines.spark.dataframes import persisted


def coalesced(records: DataFrame, offsets: int, limits: Limits) -> DataFrame:
    """Return ``records`` of so many ``offsets`` in as many partitions as they are worth.

    That isn't one a Kafka partition, for every job on them goes over all of them. Many are left as they were read, in
    parts that are all alike.
    """
    if limits.is_many(offsets):
        return records
    return records.coalesce(1 if limits.is_few(offsets) else records.sparkSession.sparkContext.defaultParallelism)


@contextmanager
def cached(records: DataFrame, offsets: int, limits: Limits) -> Iterator[DataFrame]:
    """Keep ``records`` of so many ``offsets`` for the block, once they have been read.

    Many are read again from Kafka instead, each time they are asked for: that takes less time than keeping them, and no
    memory.
    """
    if limits.is_many(offsets):
        yield records
        return
    with persisted(records):
        yield records


@dataclass
class TopicOutcome:
    """The outcome of a topic's records in a batch. Times in milliseconds, by stage.

    ``skipped``: records that the table had already; ``reread``: records from before the batch that it lacked;
    ``swept``: rows which a resync didn't find in the source any more. ``expected``: its records weren't profiled first,
    and turned out to hold what was expected. ``layout``: what was changed of it; ``layout_refused``: why the one of the
    table's spec can't be had. ``described``: what of its contract was written into its metadata; ``broken``: promise of
    it to how many rows broke it; ``not_enforced``: promise to why it can't be checked on the table as it is.
    ``plan_failed``: why a plan that was made before gave nothing. ``writers``: how many commits were
    written by which (see :mod:`pipelines.merge.strategy`).
    """

    topic: str
    rows: int = 0
    skipped: int = 0
    reread: int = 0
    swept: int = 0
    counts: Counts = field(default_factory=Counts)
    schema_changes: list[str] = field(default_factory=list)
    layout: list[str] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    layout_refused: str | None = None
    plan_failed: str | None = None
    broken: dict[str, int] = field(default_factory=dict)
    not_enforced: dict[str, str] = field(default_factory=dict)
    committed: bool = False
    writers: Counter[str] = field(default_factory=Counter)
    expected: bool = False
    oldest_commit: float | None = None
    ms: dict[str, int] = field(default_factory=dict)

    def note(self, counts: Counts, broken: Mapping[str, int]) -> None:
        """Add what became of records, and how many of them broke which promise."""
        self.counts += counts
        for promise, count in broken.items():
            self.broken[promise] = self.broken.get(promise, 0) + count

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0) + round((time.monotonic() - started) * 1000)


@dataclass(frozen=True)
class TopicBatch:
    """Records of the topic that go into the table in one commit, and the offsets that this commit accounts for.

    ``versions``: of the table that these records are of, where they are from before a change of its key (see
    :mod:`pipelines.evolve.key_change`); None: as the schema log says now. ``whole``: both halves of each row's change
    of its key are among them, or in a table without a key all that was written before them.
    """

    raw: DataFrame
    profile: TopicProfile
    offsets: Ranges
    batch: int
    session: SparkSession
    outcome: TopicOutcome
    versions: TableVersions | None = None
    whole: bool = False
