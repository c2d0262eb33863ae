"""A key histogram: where keys are changed at both ends of a table, what lies between the ends is left out.

New rows come at one end and the oldest go at the other. Then the least and the greatest changed key have the whole
table between them. So the pass that counts a batch's stats sets a bit for each bucket of a histogram that has changed
keys. The histogram is laid over the keys of the batches before it, and the widest run of buckets without changed keys
is left out. See infra/decisions/058-widest-key-gap-pruned.md.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

# As many as a long has bits.
BUCKETS = 64
# That the keys may lie in when the histogram is made. They may then begin anywhere among the first ones, as many as a
# histogram is moved by at once: it stays the same for many batches, and with it the code that Spark makes of it.
USED, MOVED = 56, 8
# Of the keys' distance, that a gap must have to be worth a condition of its own.
LEAST_SHARE = 1 / 4
# Some batches may have only new keys.
REMEMBERED = 8


@dataclass(frozen=True)
class KeyHistogram:
    """Buckets of 2 to the power of ``shift`` values each of a key's column, from the ``first`` one after 0 on.

    The first bucket has all values below it as well, and the last one all above.
    """

    key: str
    first: int
    shift: int

    @classmethod
    def over(cls, key: str, low: int, high: int) -> "KeyHistogram":
        """Lay a histogram over values of a column from ``low`` to ``high``, those of a long."""
        # Never 0, so that numbers of buckets can be subtracted without an overflow.
        shift = max(1, (-(-(high - low + 1) // USED) - 1).bit_length())
        return cls(key, (low >> shift) // MOVED * MOVED, shift)

    def bit(self, row: Column) -> Column:
        """Return a long with the one bit set that is the bucket of a row's key. Rows are put together by their bits."""
        number = F.shiftright(row.getField(self.key).cast("long"), self.shift) - F.lit(self.first).cast("long")
        bucket = F.greatest(F.lit(0).cast("long"), F.least(F.lit(BUCKETS - 1).cast("long"), number))
        return F.call_function("shiftleft", F.lit(1).cast("long"), bucket.cast("int"))

    def widest_gap(self, bits: int) -> tuple[int, int] | None:
        """Return the last value before the widest gap and the first one after it, by all rows' bits together.

        No changed key lies in between. None: no gap is worth a condition.
        """
        taken = [number for number in range(BUCKETS) if bits >> number & 1]
        runs = [(after - before - 1, before, after) for before, after in pairwise(taken)]
        width, before, after = max(runs, default=(0, 0, 0))
        if not width or width < LEAST_SHARE * (taken[-1] - taken[0] + 1):
            return None
        return ((self.first + before + 1) << self.shift) - 1, (self.first + after) << self.shift


class RecentKeys:
    """The bounds of the keys of a table's last batches. Used by one thread at a time."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._bounds: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)

    def note(self, keys: Sequence[str], bounds: Mapping[str, tuple[Any, Any]]) -> None:
        """Note that a batch had changed keys between two values in each column of ``bounds``.

        Those of ``keys`` have whole numbers.
        """
        key = next((key for key in keys if key in bounds), None)
        if key is None:
            return
        if key != self._key:
            self._key = key
            self._bounds.clear()
        self._bounds.append(bounds[key])

    def histogram(self, keys: Sequence[str]) -> KeyHistogram | None:
        """Return the histogram for the next batch, whose ``keys`` with whole numbers are these.

        None: it isn't known where they are.
        """
        if self._key is None or self._key not in keys:
            return None
        return KeyHistogram.over(self._key, min(low for low, _ in self._bounds), max(high for _, high in self._bounds))
