"""Gap: where keys are changed at both ends of a table, as where new rows come and the oldest go, what lies between.

The least and the greatest changed key have the whole table between them then. So the pass that counts a batch's facts
marks, on a ruler laid over the keys of the batches before it, which stretches have changed keys, and the widest run of
those that have none is left out. See infra/decisions/058-widest-key-gap-pruned.md.
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
# That the keys may lie in when the ruler is made. They may then begin anywhere among the first ones, as many as a ruler
# is moved by at once: it stays the same for many batches, and with it the code that Spark makes of what is asked.
USED, MOVED = 56, 8
# Of the keys' distance, that a gap must have to be worth a condition of its own.
LEAST_SHARE = 1 / 4
# Some batches may have only new keys.
REMEMBERED = 8


@dataclass(frozen=True)
class KeyHistogram:
    """Stretches of 2 to the power of ``shift`` values each of a key's column, from the ``first`` one after 0 on. The
    least stretch has all values below it as well, and the greatest one all above.
    """

    key: str
    first: int
    shift: int

    @classmethod
    def over(cls, key: str, low: int, high: int) -> "KeyHistogram":
        """Over values of a column from ``low`` to ``high``, those of a long."""
        # Never 0, so that numbers of stretches can be subtracted without an overflow.
        shift = max(1, (-(-(high - low + 1) // USED) - 1).bit_length())
        return cls(key, (low >> shift) // MOVED * MOVED, shift)

    def mark(self, row: Column) -> Column:
        """A long with the one bit set that is the stretch of a row's key. Marks are put together by their bits."""
        number = F.shiftright(row.getField(self.key).cast("long"), self.shift) - F.lit(self.first).cast("long")
        stretch = F.greatest(F.lit(0).cast("long"), F.least(F.lit(BUCKETS - 1).cast("long"), number))
        return F.call_function("shiftleft", F.lit(1).cast("long"), stretch.cast("int"))

    def gap(self, marks: int) -> tuple[int, int] | None:
        """The last value before the widest gap and the first one after it, by all the marks together: no marked key
        lies in between. None: no gap is worth it.
        """
        marked = [number for number in range(BUCKETS) if marks >> number & 1]
        runs = [(after - before - 1, before, after) for before, after in pairwise(marked)]
        width, before, after = max(runs, default=(0, 0, 0))
        if not width or width < LEAST_SHARE * (marked[-1] - marked[0] + 1):
            return None
        return ((self.first + before + 1) << self.shift) - 1, (self.first + after) << self.shift


class RecentKeys:
    """Of one table: by where the keys of its last batches were. Used by one thread at a time."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._reaches: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)

    def note(self, keys: Sequence[str], reach: Mapping[str, tuple[Any, Any]]) -> None:
        """A batch had changed keys between two values in each column of ``reach``; those of ``keys`` have whole
        numbers.
        """
        key = next((key for key in keys if key in reach), None)
        if key is None:
            return
        if key != self._key:
            self._key = key
            self._reaches.clear()
        self._reaches.append(reach[key])

    def ruler(self, keys: Sequence[str]) -> KeyHistogram | None:
        """For the next batch, whose ``keys`` with whole numbers are these. None: it isn't known where they are."""
        if self._key is None or self._key not in keys:
            return None
        return KeyHistogram.over(
            self._key, min(low for low, _ in self._reaches), max(high for _, high in self._reaches)
        )
