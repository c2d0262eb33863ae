"""The ledger: how much of a topic is already in a table, recorded in the table's own history.

Each of our commits carries, in its snapshot summary, the offsets it accounts for, what became of them, and the position
it reaches: the data and the record of the data are one commit, so neither can exist without the other. A batch that
changes no row (dead letters, tombstones) has a commit without data. So a table's history has every offset of its topic
exactly once, and after a crash, with or without a checkpoint, whatever lies below the position is skipped.

Older snapshots expire. So before they do, a commit without data carries what everything up to it comes to, its total,
and the history counts from there (see :mod:`pipelines.maintenance`).

Offsets that Kafka lost before they were read are never passed over in silence: an entry of their own says so, and which
resync has made up for them (see :mod:`pipelines.ledger.resyncs`).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import Self

from pipelines.kafka.ranges import Positions, Ranges, non_empty, offset_count, parse_positions, positions_json

PIPELINE = "lakehouse.pipeline"
BATCH = "lakehouse.batch"
OFFSETS = "lakehouse.offsets"
POSITIONS = "lakehouse.positions"
COUNTS = "lakehouse.counts"
TRUNCATED_LSN = "lakehouse.truncated-lsn"
PARTITIONS = "lakehouse.partitions"
RESYNC, RESYNCED = "lakehouse.resync", "lakehouse.resynced"
LOST = "lakehouse.lost-offsets"
# Of the topic: Kafka's own name for it, which one that is made anew under its name hasn't got.
TOPIC_ID = "lakehouse.topic-id"
# The topic was renewed: positions, and the history, count from here.
BEGUN_ANEW = "lakehouse.begun-anew"
TOTAL = "lakehouse.total"
# Promise of the table's contract to how many of the commit's records broke it.
BROKEN = "lakehouse.broken"


@dataclass(frozen=True)
class Counts:
    """The counts of a range's records, by what became of them. Each record is one of these.

    ``merged``: the newest of its key in the batch; without a key, any change. ``superseded``: a newer event of its key,
    or a truncate, came in the same batch. ``dead_lettered``, ``tombstones`` (records without a value) and ``truncates``
    as they say. ``duplicates``: events that a stream's producer had sent before.
    """

    merged: int = 0
    superseded: int = 0
    dead_lettered: int = 0
    tombstones: int = 0
    truncates: int = 0
    duplicates: int = 0

    @property
    def records(self) -> int:
        """The number of all records. The offsets of a range that aren't records are markers of transactions."""
        return sum(asdict(self).values())

    def __add__(self, other: Self) -> "Counts":
        mine, others = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})


@dataclass(frozen=True)
class Ledger:
    """The state that a table has reached.

    ``positions``: partition to the next offset; everything below it is in the table. ``truncated``: the log
    position of the newest truncate; whatever is older must not come back. ``partitions``: how many the topic has, as
    far as keys are spread over them. ``resync``: the newest resync that has begun, and ``resynced``, how many rows it
    removed because the source didn't have them any more; None: it hasn't ended. ``topic_id``: of the topic of which
    these are offsets; None: written by a release that didn't say.
    """

    positions: dict[int, int] = field(default_factory=dict)
    truncated: int | None = None
    partitions: int | None = None
    resync: str | None = None
    resynced: int | None = None
    topic_id: str | None = None

    def after(self, ranges: Ranges, truncated: int | None = None) -> "Ledger":
        """Return the ledger once ``ranges`` (partition to first offset and next offset) are in the table."""
        positions = dict(self.positions)
        for partition, (_, following) in ranges.items():
            positions[partition] = max(following, positions.get(partition, 0))
        known = [position for position in (self.truncated, truncated) if position is not None]
        return replace(self, positions=positions, truncated=max(known, default=None))

    def reaches(self, positions: Positions) -> bool:
        """Return whether everything below ``positions`` is in the table."""
        return all(self.positions.get(partition, 0) >= offset for partition, offset in positions.items())

    def up_to(self, ends: Positions) -> dict[int, tuple[int, int]]:
        """Return what lies between the table's positions and ``ends``. A partition without a position begins at 0."""
        return non_empty({partition: (self.positions.get(partition, 0), end) for partition, end in ends.items()})

    def pending(self, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """Return the part of ``ranges`` that isn't in the table yet."""
        return non_empty({p: (max(start, self.positions.get(p, 0)), end) for p, (start, end) in ranges.items()})

    def skipped(self, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """Return the offsets between the table's positions and ``ranges``.

        They would never be read if the table went on with ``ranges``.
        """
        return self.up_to({partition: start for partition, (start, _) in ranges.items()})


@dataclass(frozen=True)
class Total:
    """The total of a run of commits.

    ``spans``: by partition from the first offset to the one after the last; ``counts`` is of ``offsets`` of them,
    ``lost`` of which Kafka lost. ``uncounted``: how many of the ``commits`` are of a release that didn't count.
    """

    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    commits: int = 0
    uncounted: int = 0
    offsets: int = 0
    lost: int = 0
    counts: Counts = field(default_factory=Counts)

    def after(self, commit: "Commit") -> "Total":
        """Return the total with one more ``commit``."""
        spans = dict(self.spans)
        for partition, (start, end) in commit.offsets.items():
            first, last = spans.get(partition, (start, end))
            spans[partition] = (min(first, start), max(last, end))
        more = replace(self, spans=spans, commits=self.commits + 1)
        if commit.counts is None:
            return replace(more, uncounted=self.uncounted + 1)
        offsets, lost = self.offsets + offset_count(commit.offsets), self.lost + offset_count(commit.lost)
        return replace(more, offsets=offsets, lost=lost, counts=self.counts + commit.counts)


@dataclass(frozen=True)
class Commit:
    """One commit's entry in the ledger.

    ``counts``: None: written by a release that didn't count. ``lost``: those of its offsets that Kafka lost before they
    were read, which a resync made up for. ``total``: what everything up to it comes to, with this, where it says so.
    ``begun_anew``: the topic was renewed, and the history counts from here.
    """

    batch: int
    offsets: dict[int, tuple[int, int]]
    counts: Counts | None
    lost: dict[int, tuple[int, int]] = field(default_factory=dict)
    total: Total | None = None
    begun_anew: bool = False


def read_ledger(summaries: Iterable[Mapping[str, str]]) -> Ledger:
    """Return the ledger from snapshot summaries, newest first: that of the newest commit which has one."""
    for summary in summaries:
        if POSITIONS in summary:
            positions = parse_positions(summary[POSITIONS])
            truncated, partitions, resynced = (
                int(summary[name]) if name in summary else None for name in (TRUNCATED_LSN, PARTITIONS, RESYNCED)
            )
            return Ledger(positions, truncated, partitions, summary.get(RESYNC), resynced, summary.get(TOPIC_ID))
    return Ledger()


def commit_entries(summaries: Iterable[Mapping[str, str]]) -> list[Commit]:
    """Return the entries of snapshot summaries, in the order given; one without an entry (compaction's) is left out."""
    return [
        Commit(
            batch=int(summary[BATCH]),
            offsets=_ranges(summary[OFFSETS]),
            counts=Counts(**json.loads(summary[COUNTS])) if COUNTS in summary else None,
            lost=_ranges(summary.get(LOST, "{}")),
            total=_total(summary[TOTAL]) if TOTAL in summary else None,
            begun_anew=BEGUN_ANEW in summary,
        )
        for summary in summaries
        if OFFSETS in summary
    ]


def add_up(history: Iterable[Commit]) -> Total:
    """Return the total of a table's entries, oldest first, with what has expired and is told by a total."""
    return reduce(lambda before, commit: commit.total or before.after(commit), history, Total())


def newest_entries(summaries: Iterable[Mapping[str, str]]) -> list[Commit]:
    """Return the entries back to the newest one with a total, as far as there is one, oldest first.

    ``summaries``: newest first.
    """
    needed: list[Mapping[str, str]] = []
    for summary in summaries:
        needed.insert(0, summary)
        if TOTAL in summary:
            break
    return commit_entries(needed)


def ledger_problems(history: Iterable[Commit], complete: bool) -> list[str]:
    """List gaps, overlaps and counts that don't add up, in the entries of a table's history, oldest first.

    ``complete``: the history begins with the table's first commit, so that the first entry must begin at offset 0.
    """
    found: list[str] = []
    reached: dict[int, int] = {}
    so_far = Total() if complete else None
    for commit in history:
        for partition, (start, end) in sorted(commit.offsets.items()):
            expected = reached.get(partition, 0 if so_far is not None else start)
            where = f"batch {commit.batch}, partition {partition}"
            if start > expected:
                found.append(f"{where}: offsets {expected} to {start - 1} are in no commit")
            elif start < expected:
                found.append(f"{where}: offsets {start} to {min(end, expected) - 1} are in two commits")
            reached[partition] = max(end, reached.get(partition, 0))
        length = offset_count(commit.offsets)
        if commit.counts is not None and commit.counts.records > length:
            found.append(f"batch {commit.batch}: accounts for {commit.counts.records} records in {length} offsets")
        so_far = None if so_far is None else so_far.after(commit)
        if commit.begun_anew:
            so_far, reached = Total(), {}
        elif commit.total is not None:
            if so_far is not None and so_far != commit.total:
                found.append(f"batch {commit.batch}: the history comes to {so_far}, and its total says {commit.total}")
            so_far = commit.total
            reached |= {partition: end for partition, (_, end) in so_far.spans.items()}
    return found


def entry_summary(
    pipeline: str, batch: int, ranges: Ranges, reached: Ledger, counts: Counts, lost: Ranges | None = None,
    total: Total | None = None, broken: Mapping[str, int] | None = None, begun_anew: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Return the summary of the commit that accounts for ``ranges``.

    ``lost``: the offsets of them that Kafka had lost. ``reached``: the ledger after the commit. ``total``: what all
    commits come to, with this one. ``broken``, ``begun_anew``: see ``BROKEN`` and ``BEGUN_ANEW``.
    """
    properties = {
        PIPELINE: pipeline,
        BATCH: str(batch),
        OFFSETS: _json(ranges),
        POSITIONS: positions_json(reached.positions),
        # Duplicates are of event streams alone.
        COUNTS: json.dumps({name: n for name, n in asdict(counts).items() if n or name != "duplicates"}),
    }
    known = {TRUNCATED_LSN: reached.truncated, PARTITIONS: reached.partitions, RESYNC: reached.resync,
             RESYNCED: reached.resynced, LOST: _json(lost) if lost else None,
             TOPIC_ID: reached.topic_id, TOTAL: json.dumps(asdict(total)) if total else None,
             BEGUN_ANEW: "true" if begun_anew else None,
             BROKEN: json.dumps(broken) if broken else None}  # fmt: skip
    return properties | {name: str(value) for name, value in known.items() if value is not None}


def _total(text: str) -> Total:
    fields = json.loads(text)
    spans = {int(p): (int(start), int(end)) for p, (start, end) in fields["spans"].items()}
    return Total(**{**fields, "spans": spans, "counts": Counts(**fields["counts"])})


def _ranges(text: str) -> dict[int, tuple[int, int]]:
    return {int(p): (int(start), int(end)) for p, (start, end) in json.loads(text).items()}


def _json(ranges: Ranges) -> str:
    return json.dumps({str(p): list(span) for p, span in sorted(ranges.items())})
