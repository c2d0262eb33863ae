"""Account: a table, and how much of its topic it holds: what its ledger says, and what was read beyond that."""

from collections.abc import Mapping
from dataclasses import replace

from pipelines.changes.topic_batch import TopicBatch
from pipelines.failpoints import failpoint
from pipelines.kafka.ranges import Ranges
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Commit, Counts, Ledger, add_up, entry_summary, newest_entries, read_ledger
from pipelines.ledger.guard import LedgerGuard
from pipelines.merge.changes import Write
from pipelines.schema.versions import TableVersions


class TableLedger:
    """The table of one topic, which every commit of ours makes an entry in. Used by one thread at a time.

    ``partitions``: how many the topic has, for a table whose ledger doesn't say.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        # Of the table, if it has it: where its commits go until somebody has audited them.
        self.branch: str | None = None
        self.forget()

    def forget(self) -> None:
        """Know nothing any more, as at first."""
        self.table: LakeTable | None = None
        self.partitions = 0
        # Of what the schema log said then, everything that what is read next comes after is in the table.
        self.followed = TableVersions()
        self._told(None)
        # What this process has read beyond the ledger.
        self._read: dict[int, int] = {}

    def _told(self, known: Ledger | None) -> None:
        """Begin anew from what the ledger says; None: it hasn't been looked at."""
        self._ledger = known
        # What was found beyond it that no commit has told yet: nothing but markers of transactions, or records of a
        # topic that has no table because none of them has a row.
        self._untold = Counts()
        self._lost: dict[int, tuple[int, int]] = {}
        self._truncated_lsn: int | None = None

    def look(self, lake: Lake, namespace: str, name: str) -> None:
        """See the table as it is now: somebody may have dropped it or rolled it back."""
        table, branch = lake.table(namespace, name), self.branch
        self.table = table.on(branch) if branch and table is not None and branch in table.branches else table
        found = read_ledger(self.table.summaries()) if self.table else Ledger()
        if found != self._ledger:
            self._told(found)
            self._read = {}

    @property
    def known(self) -> Ledger:
        """What the table's ledger says."""
        return self._ledger or Ledger()

    @property
    def reached(self) -> Ledger:
        """The ledger as it would be if everything that was read had been told."""
        return self.known.after({partition: (0, end) for partition, end in self._read.items()}, self._truncated_lsn)

    def read_through(self, ranges: Ranges) -> None:
        """Note that everything in ``ranges`` has been read."""
        self._read.update(self.reached.after(ranges).positions)

    def pass_over(self, planned: Ranges) -> None:
        """Note that a batch held no record of the topic, only offsets without one."""
        if self._ledger is not None and not self.reached.skipped(planned):
            self.read_through(planned)

    def give_up(self, lost: Ranges, batch: int) -> None:
        """Account for offsets that Kafka has lost."""
        self._lost |= lost
        self._read |= {partition: end for partition, (_, end) in lost.items()}
        if self.table is not None:
            self.enter_state(self.reached, batch)

    def enter(
        self, part: TopicBatch, counts: Counts, write: Write | None = None, truncated_lsn: int | None = None,
        broken: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Commit the part's entry in the ledger, with the data that ``write`` writes, if it is given.

        ``broken``: promise of the contract to how many of its records broke it.
        Without a table nothing is committed; the entry of the commit that creates it begins with this part.
        """
        part.outcome.counts += counts
        for promise, count in (broken or {}).items():
            part.outcome.broken[promise] = part.outcome.broken.get(promise, 0) + count
        self._untold += counts
        self._truncated_lsn = self.reached.after({}, truncated_lsn).truncated_lsn
        if self.table is None:
            return
        partitions = self.known.partitions or self.partitions
        reached = replace(self.known.after(part.offsets, self._truncated_lsn), partitions=partitions)
        summary = entry_summary(
            self._pipeline, part.batch, part.offsets, reached, self._untold, self._lost, broken=broken
        )
        with part.outcome.stage("merge"):
            if write is None:
                self.table.commit_nothing(summary, validator=LedgerGuard(self.table, self.known))
            else:
                failpoint("before-merge")
                write(summary)
                failpoint("after-merge")
        part.outcome.committed |= write is not None
        self._told(reached)

    def enter_state(self, reached: Ledger, batch: int, balanced: bool = False) -> None:
        """Commit an entry without data that brings the ledger to ``reached``. There is a table.

        ``balanced``: the entry tells the total of the table's history, of which the older part may be expired then.
        """
        assert self.table is not None
        offsets = self.known.up_to(reached.positions)
        total = None
        if balanced:
            entry = Commit(batch, offsets, self._untold, self._lost)
            total = add_up([*newest_entries(self.table.summaries()), entry])
        summary = entry_summary(self._pipeline, batch, offsets, reached, self._untold, self._lost, total)
        self.table.commit_nothing(summary, tidy=balanced, validator=LedgerGuard(self.table, self.known))
        self._told(reached)
