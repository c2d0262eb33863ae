"""What every workload offers."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

# Rows of a transaction: many changes a commit while a backlog is written, few while it is live.
BULK_ROWS = 2_000
LIVE_ROWS = 25
# Enough that each partition of a topic gets some of them.
SENTINELS = 64

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Step:
    """The row changes of one transaction of a single-table workload, by key."""

    inserts: range
    updates: tuple[int, ...] = ()
    deletes: tuple[int, ...] = ()

    @property
    def changes(self) -> int:
        """How many rows it means to change."""
        return len(self.inserts) + len(self.updates) + len(self.deletes)


def paced(transactions: Iterator[Callable[[], int]], rate: float, seconds: float) -> int:
    """Run ``transactions`` such that they change ``rate`` rows a second, for a while; how many rows that were."""
    done, began = 0, time.monotonic()
    for transaction in transactions:
        # Each has its time, whatever became of those before: the rate doesn't drift.
        due = began + done / rate
        if due - began >= seconds or time.monotonic() - began > 1.5 * seconds:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        done += transaction()
    return done


class Workload(ABC):
    """A kind of change, in a schema of the source of its own. The same seed writes the same rows."""

    name: str
    schema: str
    keys: dict[str, tuple[str, ...]]
    """Table to its key."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it writes to."""
        return tuple(self.keys)

    @abstractmethod
    def create(self, connection: Connection) -> None:
        """Make the tables."""

    @abstractmethod
    def backlog(self, dsn: str, rows: int, changes: int, seed: int) -> int:
        """Load about ``rows`` rows, then change about ``changes``; how many row changes there were in all."""

    @abstractmethod
    def live(self, dsn: str, rate: float, seconds: float, seed: int) -> int:
        """About ``rate`` row changes a second for a while, in small transactions; how many there were."""

    @abstractmethod
    def sentinel(self, connection: Connection) -> None:
        """Change a few rows of every table last, such that the last record of each partition is no delete."""

    def row_bytes(self, connection: Connection) -> dict[str, float]:
        """Table to the mean size of a row as PostgreSQL stores it: what a changed byte is counted by."""
        sizes = {}
        for table in self.tables:
            query = f'SELECT avg(pg_column_size(t.*)) FROM (SELECT * FROM "{self.schema}"."{table}" LIMIT 20000) t'
            found = connection.execute(query.encode()).fetchone()
            sizes[table] = float(found[0] or 0) if found else 0.0
        return sizes


class SingleTable(Workload):
    """A workload of one table with the key ``id``, described by steps."""

    table: str
    with_transactions = True

    @abstractmethod
    def steps(self, chance: random.Random, highest: int, size: int) -> Iterator[Step]:
        """Steps without end, of about ``size`` changes each, after the keys up to ``highest`` are there."""

    @abstractmethod
    def apply(self, connection: Connection, step: Step, stamp: int) -> int:
        """Run a step in one transaction; how many rows it changed. ``stamp`` goes into the values."""

    def load(self, connection: Connection, keys: range) -> int:
        """Insert these keys."""
        return self.apply(connection, Step(keys), 0)

    def backlog(self, dsn: str, rows: int, changes: int, seed: int) -> int:
        done = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            first = self._highest(connection) + 1
            for start in range(first, first + rows, 10 * BULK_ROWS):
                done += self.load(connection, range(start, min(start + 10 * BULK_ROWS, first + rows)))
            steps = self.steps(self._chance(seed, "backlog"), self._highest(connection), BULK_ROWS)
            wanted = done + changes
            for stamp, step in enumerate(steps, start=1):
                if done >= wanted:
                    break
                done += self.apply(connection, step, seed * 1_000_003 + stamp)
            connection.execute(f'ANALYZE "{self.schema}"."{self.table}"'.encode())
        return done

    def live(self, dsn: str, rate: float, seconds: float, seed: int) -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return paced(self.transactions(connection, seed), rate, seconds)

    def transactions(self, connection: Connection, seed: int) -> Iterator[Callable[[], int]]:
        """Live load without end: each runs a transaction, and tells how many rows it changed, or was to change."""
        steps = self.steps(self._chance(seed, "live"), self._highest(connection), LIVE_ROWS)
        for stamp, step in enumerate(steps, start=1):
            yield partial(self._changed, connection, step, seed * 1_000_003 + stamp)

    def _changed(self, connection: Connection, step: Step, stamp: int) -> int:
        return self.apply(connection, step, stamp) or step.changes

    def sentinel(self, connection: Connection) -> None:
        newest = self._highest(connection)
        self.apply(connection, Step(range(newest + 1, newest + 1 + SENTINELS)), 0)

    def _chance(self, seed: int, phase: str) -> random.Random:
        return random.Random(f"{self.name}/{seed}/{phase}")

    def _highest(self, connection: Connection) -> int:
        found = connection.execute(f'SELECT coalesce(max(id), 0) FROM "{self.schema}"."{self.table}"'.encode())
        row = found.fetchone()
        assert row is not None
        return int(row[0])
