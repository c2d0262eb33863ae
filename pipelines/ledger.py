"""What of a topic is already in a table, kept in the table's own history.

Each data commit carries, in its snapshot summary, the offsets it holds and the position it reaches: the data and the
record of the data are one commit, so neither can exist without the other. After a crash, with or without a checkpoint,
whatever lies below the position is skipped.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PIPELINE = "lakehouse.pipeline"
BATCH = "lakehouse.batch"
OFFSETS = "lakehouse.offsets"
POSITIONS = "lakehouse.positions"
TRUNCATED_LSN = "lakehouse.truncated-lsn"

Positions = Mapping[int, int]
Ranges = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Ledger:
    """The state that a table has reached.

    ``positions``: partition to the next offset; everything below it is in the table. ``truncated_lsn``: the log
    position of the newest truncate; whatever is older must not come back.
    """

    positions: dict[int, int] = field(default_factory=dict)
    truncated_lsn: int | None = None

    def after(self, ranges: Ranges, truncated_lsn: int | None = None) -> "Ledger":
        """The ledger once ``ranges`` (partition to first offset and next offset) are in the table."""
        positions = dict(self.positions)
        for partition, (_, following) in ranges.items():
            positions[partition] = max(following, positions.get(partition, 0))
        known = [lsn for lsn in (self.truncated_lsn, truncated_lsn) if lsn is not None]
        return Ledger(positions, max(known, default=None))

    def pending(self, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """The part of ``ranges`` that isn't in the table yet."""
        left = {p: (max(start, self.positions.get(p, 0)), end) for p, (start, end) in ranges.items()}
        return {partition: (start, end) for partition, (start, end) in left.items() if start < end}


def read(summaries: Iterable[Mapping[str, str]]) -> Ledger:
    """The ledger from snapshot summaries, newest first: that of the newest commit which has one."""
    for summary in summaries:
        if POSITIONS in summary:
            truncated = summary.get(TRUNCATED_LSN)
            positions = {int(p): int(offset) for p, offset in json.loads(summary[POSITIONS]).items()}
            return Ledger(positions, int(truncated) if truncated else None)
    return Ledger()


def summary(pipeline: str, batch: int, ranges: Ranges, reached: Ledger) -> dict[str, str]:
    """The properties of the commit that brings ``ranges`` into the table; ``reached`` is the ledger after it."""
    properties = {
        PIPELINE: pipeline,
        BATCH: str(batch),
        OFFSETS: json.dumps({str(p): list(span) for p, span in sorted(ranges.items())}),
        POSITIONS: json.dumps({str(p): offset for p, offset in sorted(reached.positions.items())}),
    }
    if reached.truncated_lsn is not None:
        properties[TRUNCATED_LSN] = str(reached.truncated_lsn)
    return properties
