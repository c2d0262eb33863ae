"""A key filter: a Bloom filter of one hash function, which leaves out most rows of a table that no change concerns.

Each key has a bucket, by its hash. The bitmap says which buckets changed keys have; a row of another bucket needn't be
shuffled. It is one value in the statement. So it costs the planner nothing, however many keys there are: unlike a list
of them. See infra/decisions/031-key-filter.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.sql import quote

# For each key, so that of the rows that aren't concerned one in 16 passes; but no more than a bitmap of a megabyte has
# (see Limits.filter_buckets).
BUCKETS_PER_KEY = 16
PARAMETER = "key_filter"


@dataclass(frozen=True)
class KeyFilter:
    """The buckets of a table's key, by ``keys``: those of its columns whose hash is the same in the table."""

    keys: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, keys: Sequence[str], changes: int, most: int) -> "KeyFilter":
        """Return a filter with as many buckets as are worth it for so many changes, ``most`` at the most.

        Their number is a power of two, so that batches of about the same size have the same columns (see
        infra/decisions/045-few-calls-few-tasks.md).
        """
        return cls(tuple(keys), min(most, 1 << (BUCKETS_PER_KEY * changes - 1).bit_length()))

    def bucket(self, row: Column) -> Column:
        """Return the bucket of a row's key."""
        values = [row.getField(key) for key in self.keys]
        return F.pmod(F.xxhash64(*values), F.lit(self.count)).cast("int")

    def bitmap(self, taken: Iterable[int]) -> bytes:
        """Return what :meth:`condition` looks into: a byte a bucket, since Spark takes long to get at a bit."""
        found = bytearray(self.count)
        for bucket in taken:
            found[bucket] = 1
        return bytes(found)

    def condition(self, row: str) -> str:
        """Return the condition, in SQL, for a row whose bucket is taken in the parameter :data:`PARAMETER`."""
        values = ", ".join(f"{row}.{quote(key)}" for key in self.keys)
        bucket = f"CAST(pmod(xxhash64({values}), {self.count:d}) AS INT)"
        return f"substring(:{PARAMETER}, {bucket} + 1, 1) = X'01'"
