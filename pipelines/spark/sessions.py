"""Sessions that work side by side: each is lent to one piece of work at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from pyspark.sql import SparkSession


class Sessions:
    """A fixed number of sessions. A session's settings carry one commit's ledger, so it serves one table at a time."""

    def __init__(self, spark: SparkSession, count: int) -> None:
        self._free: SimpleQueue[SparkSession] = SimpleQueue()
        for _ in range(count):
            self._free.put(spark.newSession())

    @contextmanager
    def lend(self) -> Iterator[SparkSession]:
        """Lend a session; wait until one is free."""
        session = self._free.get()
        try:
            yield session
        finally:
            self._free.put(session)
