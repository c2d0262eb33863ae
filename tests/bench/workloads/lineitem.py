"""TPC-H's `lineitem` in shape: orders of one to seven lines are loaded, then refreshed as its refresh functions do.

RF1 inserts new orders with their lines, RF2 deletes old ones with theirs. Between them lines change their state as they
are shipped, which TPC-H leaves to the imagination. Values follow from the key; the official generator isn't used.
"""

import random
import time
from typing import Any

import psycopg

from tests.bench.workloads.base import BULK_ROWS, LIVE_ROWS, SENTINELS, Connection, Workload

DDL = """
CREATE TABLE bench_lineitem.lineitem (
  l_orderkey bigint NOT NULL, l_linenumber integer NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL,
  l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
  l_tax numeric(15,2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL,
  l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL,
  l_comment text NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber))"""
INSERT = """
INSERT INTO bench_lineitem.lineitem
SELECT o, n, p, p %% 10007, q, (q * (900 + p %% 1100))::numeric(15,2), (h %% 11) / 100.0, (h %% 9) / 100.0,
  'N', 'O', d, d + (h %% 60 + 1)::int, d + (h %% 30 + 1)::int,
  (ARRAY['DELIVER IN PERSON','COLLECT COD','NONE','TAKE BACK RETURN'])[1 + h %% 4],
  (ARRAY['REG AIR','AIR','RAIL','SHIP','TRUCK','MAIL','FOB'])[1 + h %% 7], left(md5(o || '/' || n), 10 + (h %% 22)::int)
FROM (SELECT o, n, (o * 7919 + n * 104729) %% 200003 + 1 AS p, (o * 31 + n) %% 50 + 1 AS q, (o * 131 + n * 17) AS h,
    date '1992-01-01' + (o %% 2500)::int AS d
  FROM generate_series(%(first)s::bigint, %(last)s) AS o, generate_series(1, 7) AS n WHERE n <= 1 + o * 13 %% 7) AS x"""
SHIP = """
UPDATE bench_lineitem.lineitem SET l_linestatus = 'F',
  l_returnflag = CASE WHEN l_orderkey %% 2 = 0 THEN 'A' ELSE 'R' END,
  l_receiptdate = l_receiptdate + 1 WHERE l_orderkey = ANY (%s)"""
LINES = 4
REFRESH = 0.25


class Lineitem(Workload):
    """A load, then rounds of a quarter inserts (RF1), a quarter deletes (RF2), a half updates of recent lines."""

    name, schema = "lineitem", "bench_lineitem"
    keys = {"lineitem": ("l_orderkey", "l_linenumber")}

    def create(self, connection: Connection) -> None:
        connection.execute(DDL.encode())

    def backlog(self, dsn: str, rows: int, changes: int, seed: int) -> int:
        done = 0
        with psycopg.connect(dsn, autocommit=True) as connection:
            orders = rows // LINES
            for first in range(1, orders + 1, 10 * BULK_ROWS // LINES):
                done += self._insert(connection, first, min(first + 10 * BULK_ROWS // LINES - 1, orders))
            chance, wanted = random.Random(f"lineitem/{seed}/backlog"), done + changes
            while done < wanted:
                done += self._round(connection, chance, BULK_ROWS)
        return done

    def live(self, dsn: str, rate: float, seconds: float, seed: int) -> int:
        done, chance, began = 0, random.Random(f"lineitem/{seed}/live"), time.monotonic()
        with psycopg.connect(dsn, autocommit=True) as connection:
            while done / rate < seconds and time.monotonic() - began < 1.5 * seconds:
                time.sleep(max(0.0, began + done / rate - time.monotonic()))
                done += self._round(connection, chance, LIVE_ROWS)
        return done

    def sentinel(self, connection: Connection) -> None:
        _, newest = self._bounds(connection)
        self._insert(connection, newest + 1, newest + SENTINELS)

    def _round(self, connection: Connection, chance: random.Random, size: int) -> int:
        oldest, newest = self._bounds(connection)
        orders = max(1, round(size * REFRESH / LINES))
        recent = [max(oldest, newest - int(chance.expovariate(1 / 1_000))) for _ in range(2 * orders)]
        with connection.transaction():
            done = self._insert(connection, newest + 1, newest + orders)
            done += connection.execute(SHIP.encode(), [recent]).rowcount
            query = b"DELETE FROM bench_lineitem.lineitem WHERE l_orderkey BETWEEN %s AND %s"
            done += connection.execute(query, (oldest, oldest + orders - 1)).rowcount
        return done

    def _insert(self, connection: Connection, first: int, last: int) -> int:
        return connection.execute(INSERT.encode(), {"first": first, "last": last}).rowcount

    def _bounds(self, connection: Connection) -> tuple[int, int]:
        query = b"SELECT coalesce(min(l_orderkey), 1), coalesce(max(l_orderkey), 0) FROM bench_lineitem.lineitem"
        row: Any = connection.execute(query).fetchone()
        return int(row[0]), int(row[1])
