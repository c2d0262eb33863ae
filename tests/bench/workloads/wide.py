"""Updates over one wide table: which keys are hot is what these workloads differ in."""

import math
import random
from collections.abc import Callable, Iterator
from typing import Literal

from tests.bench.workloads.base import Connection, SingleTable, Step

Distribution = Literal["uniform", "zipf", "hot-tail"]

COLUMNS = """
  id bigint PRIMARY KEY, stamp bigint NOT NULL, customer bigint NOT NULL, product integer NOT NULL,
  quantity integer NOT NULL, price numeric(12,2) NOT NULL, discount double precision NOT NULL, paid boolean NOT NULL,
  status text NOT NULL, channel text NOT NULL, country text NOT NULL, city text NOT NULL, street text NOT NULL,
  email text NOT NULL, note text, hash text NOT NULL, opened_on date NOT NULL, opened_at timestamptz NOT NULL,
  changed_at timestamptz NOT NULL, weight double precision, parts integer NOT NULL"""
# Every value follows from the key and the stamp.
ROW = """
SELECT k.id, %(stamp)s::bigint, (k.id * 7919) %% 1000003, (k.id * 31 + %(stamp)s::bigint)::bigint %% 20011,
  1 + (k.id + %(stamp)s::bigint) %% 9, ((k.id * 37 + %(stamp)s::bigint * 101) %% 1000000)::numeric / 100,
  ((k.id + %(stamp)s::bigint) %% 30) / 100.0::float8, (k.id + %(stamp)s::bigint) %% 3 = 0,
  (ARRAY['placed','paid','packed','shipped','delivered'])[1 + (k.id + %(stamp)s::bigint) %% 5],
  (ARRAY['web','shop','phone'])[1 + k.id %% 3], (ARRAY['DE','FR','IT','ES','PL','SE'])[1 + k.id %% 6],
  'City ' || k.id %% 997, 'Street ' || k.id %% 4001 || ' no. ' || k.id %% 211,
  'customer' || (k.id * 7919) %% 1000003 || '@example.org',
  CASE WHEN (k.id + %(stamp)s::bigint) %% 4 = 0 THEN NULL ELSE 'note ' || md5(k.id || '/' || %(stamp)s::bigint) END,
  md5(k.id || '-' || %(stamp)s::bigint), date '2020-01-01' + (k.id %% 2000)::int,
  timestamptz '2020-01-01 00:00:00+00' + (k.id %% 50000000) * interval '1 second',
  timestamptz '2026-01-01 00:00:00+00' + (%(stamp)s::bigint %% 30000000) * interval '1 second',
  CASE WHEN k.id %% 10 = 0 THEN NULL ELSE (k.id %% 1000) / 8.0::float8 END, (k.id %% 7)::int
FROM {keys} AS k(id)"""
CHANGED = ("stamp", "product", "quantity", "price", "discount", "paid", "status", "note", "hash", "changed_at")
UPDATES, INSERTS = 0.85, 0.10
# How far behind the newest key hot-tail's updates lie, on average.
TAIL_KEYS = 2_500
SCATTER = 2_654_435_761


class Wide(SingleTable):
    """85 % updates, 10 % inserts, 5 % deletes of a table of 21 columns."""

    def __init__(self, distribution: Distribution, name: str = "", table: str = "wide") -> None:
        self.name, self.table = name or distribution, table
        self.schema = f"bench_{self.name.replace('-', '_')}"
        self.keys = {self.table: ("id",)}
        self._pick = PICKS[distribution]

    def create(self, connection: Connection) -> None:
        connection.execute(f"CREATE TABLE {self.schema}.{self.table} ({COLUMNS})".encode())

    def steps(self, chance: random.Random, highest: int, size: int) -> Iterator[Step]:
        loaded = highest
        while True:
            inserts = range(highest + 1, highest + 1 + round(size * INSERTS))
            updates = tuple(sorted({self._pick(chance, highest, loaded) for _ in range(round(size * UPDATES))}))
            gone = {chance.randint(1, highest) for _ in range(size - len(inserts) - round(size * UPDATES))}
            highest += len(inserts)
            # A transaction changes a key once.
            yield Step(inserts, updates, tuple(sorted(gone.difference(updates))))

    def updates(self, distribution: Distribution, chance: random.Random, highest: int, size: int) -> Step:
        """Updates of so many keys, or of all that there are."""
        keys: set[int] = set()
        # Of a tail, no more keys are hot than there are near the end of it.
        for _ in range(20 * size):
            keys.add(PICKS[distribution](chance, highest, highest))
            if len(keys) == size:
                break
        return Step(range(0), tuple(sorted(keys)))

    def apply(self, connection: Connection, step: Step, stamp: int) -> int:
        changed = 0
        target = f"{self.schema}.{self.table}"
        with connection.transaction():
            if step.inserts:
                query = f"INSERT INTO {target} {ROW.format(keys='generate_series(%(first)s::bigint, %(last)s)')}"
                given = {"stamp": stamp, "first": step.inserts[0], "last": step.inserts[-1]}
                changed += connection.execute(query.encode(), given).rowcount
            if step.updates:
                names = [column.split()[0] for column in COLUMNS.replace("\n", " ").split(", ")]
                rows = f"({ROW.format(keys='unnest(%(ids)s::bigint[])')}) AS fresh({', '.join(names)})"
                values = ", ".join(f"{column} = fresh.{column}" for column in CHANGED)
                query = f"UPDATE {target} AS old SET {values} FROM {rows} WHERE old.id = fresh.id"
                changed += connection.execute(query.encode(), {"stamp": stamp, "ids": list(step.updates)}).rowcount
            if step.deletes:
                query = f"DELETE FROM {target} WHERE id = ANY (%s)"
                changed += connection.execute(query.encode(), [list(step.deletes)]).rowcount
        return changed


def _uniform(chance: random.Random, highest: int, _loaded: int) -> int:
    return chance.randint(1, highest)


def _zipf(chance: random.Random, _highest: int, loaded: int) -> int:
    """Rank with a probability of about 1 / rank, scattered over the keys that there were at first."""
    rank = int(math.exp(chance.random() * math.log(loaded)))
    return rank * SCATTER % loaded + 1


def _hot_tail(chance: random.Random, highest: int, _loaded: int) -> int:
    return max(1, highest - int(chance.expovariate(1 / TAIL_KEYS)))


PICKS: dict[Distribution, Callable[[random.Random, int, int], int]] = {
    "uniform": _uniform, "zipf": _zipf, "hot-tail": _hot_tail,
}  # fmt: skip
