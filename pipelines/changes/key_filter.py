"""Sieve: what tells of most rows of a table, without a look at the changes, that none of these concerns them.

Each key has a slot, by its hash. The sieve says which slots changed keys have; a row of another slot needn't be
shuffled. It is one value in the statement, so that it costs the planner nothing, however many keys there are: unlike a
list of them. See infra/decisions/031-key-filter.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.sql import quote

# For each key, so that of the rows that aren't concerned one in 16 passes; but no more than a sieve of a megabyte has.
BUCKETS_PER_KEY, MOST_BUCKETS = 16, 1 << 20
PARAMETER = "sieve"


@dataclass(frozen=True)
class KeyFilter:
    """The slots of a table's key, or of those of its columns that have a hash of their own: ``keys``."""

    keys: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, keys: Sequence[str], changes: int) -> "KeyFilter":
        """As many as are worth it for so many changes: a power of two, so that batches of about the same size have
        the same columns (see infra/decisions/045-few-calls-few-tasks.md).
        """
        return cls(tuple(keys), min(MOST_BUCKETS, 1 << (BUCKETS_PER_KEY * changes - 1).bit_length()))

    def slot(self, row: Column) -> Column:
        """The slot of a row's key."""
        values = [row.getField(key) for key in self.keys]
        return F.pmod(F.xxhash64(*values), F.lit(self.count)).cast("int")

    def sieve(self, taken: Iterable[int]) -> bytes:
        """What :meth:`passes` looks into: a byte a slot, since Spark takes long to get at a bit."""
        found = bytearray(self.count)
        for slot in taken:
            found[slot] = 1
        return bytes(found)

    def passes(self, row: str) -> str:
        """The condition, in SQL, for a row whose slot is taken in the parameter :data:`PARAMETER`."""
        values = ", ".join(f"{row}.{quote(key)}" for key in self.keys)
        slot = f"CAST(pmod(xxhash64({values}), {self.count:d}) AS INT)"
        return f"substring(:{PARAMETER}, {slot} + 1, 1) = X'01'"
