"""Events that are only ever appended."""

import random
from collections.abc import Iterator

from tests.bench.workloads.base import Connection, SingleTable, Step

COLUMNS = """
  id bigint PRIMARY KEY, device bigint NOT NULL, kind text NOT NULL, reading double precision NOT NULL,
  page text NOT NULL, session text NOT NULL, seen_at timestamptz NOT NULL, stamp bigint NOT NULL"""
ROWS = """
SELECT id, (id * 7919) % 50021, (ARRAY['view','click','buy','leave'])[1 + id % 4], (id % 10007) / 16.0::float8,
  '/page/' || id % 5003, md5((id / 20)::text), timestamptz '2026-01-01 00:00:00+00' + id * interval '1 millisecond',
  {stamp} FROM generate_series({first}::bigint, {last}) AS id"""


class Events(SingleTable):
    """Inserts only."""

    name, schema, table = "events", "bench_events", "events"
    keys = {"events": ("id",)}

    def create(self, connection: Connection) -> None:
        connection.execute(f"CREATE TABLE {self.schema}.{self.table} ({COLUMNS})".encode())

    def steps(self, chance: random.Random, highest: int, size: int) -> Iterator[Step]:
        while True:
            yield Step(range(highest + 1, highest + 1 + size))
            highest += size

    def apply(self, connection: Connection, step: Step, stamp: int) -> int:
        rows = ROWS.format(stamp=stamp, first=step.inserts[0], last=step.inserts[-1])
        return connection.execute(f"INSERT INTO {self.schema}.{self.table} {rows}".encode()).rowcount
