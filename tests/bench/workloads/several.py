"""Several wide tables at once, each with hot keys of another kind."""

from itertools import chain

import psycopg

from tests.bench.workloads.base import Connection, Workload, paced
from tests.bench.workloads.wide import Distribution, Wide

DISTRIBUTIONS: tuple[Distribution, ...] = ("hot-tail", "zipf", "uniform")


class Several(Workload):
    """A table for each distribution; live load goes round them, a transaction each."""

    name, schema = "several", "bench_several"

    def __init__(self) -> None:
        self._parts = [Wide(how, self.name, f"wide_{how.replace('-', '_')}") for how in DISTRIBUTIONS]
        self.keys = {table: key for part in self._parts for table, key in part.keys.items()}

    def create(self, connection: Connection) -> None:
        for part in self._parts:
            part.create(connection)

    def backlog(self, dsn: str, rows: int, changes: int, seed: int) -> int:
        count = len(self._parts)
        return sum(part.backlog(dsn, rows // count, changes // count, seed) for part in self._parts)

    def live(self, dsn: str, rate: float, seconds: float, seed: int) -> int:
        with psycopg.connect(dsn, autocommit=True) as connection:
            each = [part.transactions(connection, seed) for part in self._parts]
            return paced(chain.from_iterable(zip(*each, strict=True)), rate, seconds)

    def sentinel(self, connection: Connection) -> None:
        for part in self._parts:
            part.sentinel(connection)
