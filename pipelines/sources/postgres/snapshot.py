"""The transactions that a PostgreSQL snapshot sees.

It is the rule of ``pg_visible_in_snapshot``, for 32-bit ids of the log.
"""

from dataclasses import dataclass
from typing import Self

EPOCH = 1 << 32
HALF_EPOCH = 1 << 31


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as ``pg_current_snapshot()`` prints it, ``xmin:xmax:xip,xip,…``, in 64-bit transaction ids.

    Every id below ``xmin`` has ended, none from ``xmax`` on is seen, and those of ``in_progress`` were still running.
    """

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the snapshot from PostgreSQL's text form. Raises ValueError on anything else."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.in_progress)))}"

    def widen(self, xid: int) -> int:
        """Return the 64-bit id of a transaction that the log names by its lower 32 bits.

        The log holds only ids less than 2^31 away from the newest one, so the nearest candidate is the right one.
        """
        if xid >= EPOCH:
            return xid
        candidate = (self.xmax & ~(EPOCH - 1)) | xid
        if candidate - self.xmax > HALF_EPOCH:
            return candidate - EPOCH
        if self.xmax - candidate > HALF_EPOCH:
            return candidate + EPOCH
        return candidate

    def sees(self, xid: int) -> bool:
        """Return whether a committed transaction (32 or 64 bits of its id) is visible. Only for ids that did commit."""
        wide = self.widen(xid)
        return wide < self.xmin or (wide < self.xmax and wide not in self.in_progress)
