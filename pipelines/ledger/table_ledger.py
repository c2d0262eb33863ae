"""One table's ledger: what it says, and what this process has read beyond that."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pipelines.failpoints import failpoint
from pipelines.kafka.ranges import Ranges
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import (
    Commit,
    Counts,
    Ledger,
    Total,
    add_up,
    entry_summary,
    newest_entries,
    read_ledger,
)
from pipelines.ledger.guard import ledger_guard
from pipelines.schema.versions import TableVersions

# Writes the data of a commit that carries the summary which it is given.
Write = Callable[[Mapping[str, str]], None]


class TableLedger:
    """The table of one topic, with its ledger: every commit of ours is an entry in it. Used by one thread at a time.

    ``namespace``, ``name``: the table's in the lake. ``partitions``: how many the topic has, for a table whose ledger
    doesn't say. ``topic_id``: the topic's, which commits say from now on.
    """

    def __init__(self, pipeline: str, namespace: str, name: str) -> None:
        self._pipeline, self.namespace, self.name = pipeline, namespace, name
        # Of the table, if it has it: where its commits go until somebody has audited them.
        self.branch: str | None = None
        self.topic_id: str | None = None
        self.forget()

    def forget(self) -> None:
        """Forget everything, as at first."""
        self.table: LakeTable | None = None
        self.partitions = 0
        # Of what the schema log said then, everything that what is read next comes after is in the table.
        self.followed = TableVersions()
        self._begin_from(None)
        # What this process has read beyond the ledger.
        self._read: dict[int, int] = {}

    def _begin_from(self, known: Ledger | None) -> None:
        """Begin anew from what the ledger says; None: it hasn't been looked at."""
        self._ledger = known
        # What was found beyond it that no commit has told yet: nothing but markers of transactions, or records of a
        # topic that has no table because none of them has a row.
        self._uncommitted = Counts()
        self._lost: dict[int, tuple[int, int]] = {}
        self._truncated: int | None = None

    def load(self, lake: Lake) -> None:
        """Look the table up as it is now: somebody may have dropped it or rolled it back."""
        table, branch = lake.table(self.namespace, self.name), self.branch
        self.table = table.on_branch(branch) if branch and table is not None and branch in table.branches else table
        found = read_ledger(self.table.summaries()) if self.table else Ledger()
        if found != self._ledger:
            self._begin_from(found)
            self._read = {}

    @contextmanager
    def as_it_is(self, lake: Lake) -> Iterator["TableLedger"]:
        """Give this ledger as the table is now; whatever fails within the block, it is forgotten."""
        self.load(lake)
        try:
            yield self
        except BaseException:
            self.forget()
            raise

    @property
    def known(self) -> Ledger:
        """The ledger as the table has it."""
        return self._ledger or Ledger()

    @property
    def reached(self) -> Ledger:
        """The ledger as it would be if everything that was read had been committed."""
        return self.known.after({partition: (0, end) for partition, end in self._read.items()}, self._truncated)

    def is_next(self, ranges: Ranges) -> bool:
        """Return whether ``ranges`` are what comes next, all of them."""
        return self.reached.pending(ranges) == ranges and not self.reached.skipped(ranges)

    def goes_on(self, planned: Ranges) -> bool:
        """Return whether ``planned`` has the partitions that the ledger has, or is all that there ever was."""
        if not self.known.positions:
            return all(start == 0 for start, _ in planned.values())
        return len(planned) == self.known.partitions

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
            self.commit_state(self.reached, batch)

    def commit(
        self, batch: int, offsets: Ranges, counts: Counts, write: Write | None = None,
        truncated: int | None = None, broken: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Commit an entry for these offsets, with the data that ``write`` writes, if it is given.

        ``counts``: what became of the records. ``broken``: promise of the contract to how many of them broke it.
        Without a table nothing is committed; the entry of the commit that creates it begins with these offsets.
        """
        self._uncommitted += counts
        self._truncated = self.reached.after({}, truncated).truncated
        if self.table is None:
            return
        partitions = self.known.partitions or self.partitions
        reached = replace(
            self.known.after(offsets, self._truncated), partitions=partitions,
            topic_id=self.topic_id or self.known.topic_id,
        )  # fmt: skip
        summary = entry_summary(self._pipeline, batch, offsets, reached, self._uncommitted, self._lost, broken=broken)
        if write is None:
            self.table.commit_nothing(summary, validator=ledger_guard(self.table, self.known))
        else:
            failpoint("before-merge")
            write(summary)
            failpoint("after-merge")
        self._begin_from(reached)

    def commit_state(self, reached: Ledger, batch: int, balanced: bool = False) -> None:
        """Commit an entry without data that brings the ledger to ``reached``. There is a table.

        ``balanced``: the entry has the total of the table's history, of which the older part may be expired then.
        """
        assert self.table is not None
        offsets = self.known.up_to(reached.positions)
        total = None
        if balanced:
            entry = Commit(batch, offsets, self._uncommitted, self._lost)
            total = add_up([*newest_entries(self.table.summaries()), entry])
        summary = entry_summary(self._pipeline, batch, offsets, reached, self._uncommitted, self._lost, total)
        self.table.commit_nothing(summary, tidy=balanced, validator=ledger_guard(self.table, self.known))
        self._begin_from(reached)

    def begin_anew(self, reached: Ledger, batch: int) -> None:
        """Commit an entry by which the table has nothing yet of its topic, which was renewed. There is a table."""
        assert self.table is not None
        summary = entry_summary(self._pipeline, batch, {}, reached, Counts(), total=Total(), begun_anew=True)
        self.table.commit_nothing(summary, validator=ledger_guard(self.table, self.known))
        self._begin_from(reached)
        self._read = {}
