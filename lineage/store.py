"""The store: what events have said of datasets, jobs and runs, in PostgreSQL.

An event is kept whole and once, however often it is sent, and what it says is merged into what is known: a facet that
comes again replaces its older self. A run is in the state that the newest of its events says, by their own time: one
that failed may go on.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from lineage.names import Name
from lineage.received import Dataset, DatasetEvent, Facets, JobEvent, Received, RunEvent

Rows = list[dict[str, Any]]
STATES = {"START": "RUNNING", "RUNNING": "RUNNING", "COMPLETE": "COMPLETED", "ABORT": "ABORTED", "FAIL": "FAILED"}
ENDED = ("COMPLETED", "ABORTED", "FAILED")
# Whoever starts together makes the tables one after the other.
_LOCK = 7_203_115


@dataclass(frozen=True)
class Store:
    """The store behind a pool of connections. Safe to use from several threads. Methods raise psycopg's errors."""

    pool: ConnectionPool[Connection[DictRow]]

    @classmethod
    @contextmanager
    def open(cls, conninfo: str) -> Iterator[Self]:
        """Open the store in this database, its tables made. The database needn't answer yet."""
        pool: ConnectionPool[Connection[DictRow]]
        kwargs = {"row_factory": dict_row, "autocommit": True}
        with ConnectionPool(
            conninfo, connection_class=Connection[DictRow], min_size=1, max_size=4, kwargs=kwargs, timeout=10
        ) as pool:
            yield cls(pool)

    def prepare(self) -> None:
        """Make what isn't there."""
        script = Path(__file__).with_name("schema.sql").read_bytes()
        with self.pool.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute(script)

    def take(self, received: Received) -> bool:
        """Keep an event; False: it is known already."""
        event = received.event
        run = None if isinstance(event, DatasetEvent) else event.run.run_id
        kind = event.event_type if isinstance(event, RunEvent) else None
        with self.pool.connection() as connection, connection.transaction():
            new = connection.execute(
                "INSERT INTO event (digest, at, run, type, body) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT (digest) DO NOTHING",
                (received.digest, received.at, run, kind, Jsonb(received.body)),
            ).rowcount
            if not new:
                return False
            if isinstance(event, DatasetEvent):
                _datasets(connection, [event.dataset], event.event_time)
            else:
                _run(connection, event)
        return True

    def prune(self, before: datetime) -> int:
        """Forget events of earlier than this, and runs that ended earlier; the newest of each job stays. How many."""
        with self.pool.connection() as connection, connection.transaction():
            events = connection.execute("DELETE FROM event WHERE at < %s", (before,)).rowcount
            runs = connection.execute(
                "DELETE FROM run r WHERE ended_at < %s"
                " AND EXISTS (SELECT FROM run n WHERE n.job = r.job AND n.started_at > r.started_at)",
                (before,),
            ).rowcount
            return events + runs

    def state(self, reader: str) -> dict[str, Any]:
        """Return how far a reader has come; {} at first."""
        found = self.one("SELECT state FROM progress WHERE reader = %s", (reader,))
        return dict(found["state"]) if found else {}

    def remember(self, reader: str, state: Mapping[str, Any]) -> None:
        """Keep how far a reader has come."""
        with self.pool.connection() as connection:
            connection.execute(
                "INSERT INTO progress VALUES (%s, %s) ON CONFLICT (reader) DO UPDATE SET state = excluded.state",
                (reader, Jsonb(dict(state))),
            )

    def rows(self, query: str, parameters: Iterable[Any] | Mapping[str, Any] = ()) -> Rows:
        """Return the rows of a query."""
        given = parameters if isinstance(parameters, Mapping) else tuple(parameters)
        with self.pool.connection() as connection:
            return connection.execute(query.encode(), given).fetchall()

    def one(self, query: str, parameters: Iterable[Any] | Mapping[str, Any] = ()) -> dict[str, Any] | None:
        """Return the first row of a query, if it has one."""
        return next(iter(self.rows(query, parameters)), None)


def _run(connection: Connection[DictRow], event: RunEvent | JobEvent) -> None:
    at = event.event_time
    kind = event.event_type if isinstance(event, RunEvent) else "COMPLETE"
    state = STATES.get(kind)
    job = _one(connection, _NAMED.format("job"), (event.job.namespace, event.job.name, at, at, _kept(event.job.facets)))
    ended = at if state in ENDED else None
    connection.execute(
        _RUN, {"id": event.run.run_id, "job": job, "state": state or "NEW", "at": at, "ended": ended,
               "started": kind == "START", "told": state is not None, "facets": _kept(event.run.facets)}
    )  # fmt: skip
    datasets = _datasets(connection, [*event.inputs, *event.outputs], at)
    for used, is_output in [*((d, False) for d in event.inputs), *((d, True) for d in event.outputs)]:
        dataset = datasets[Name(used.namespace, used.name)]
        connection.execute(_USE, (event.run.run_id, dataset, is_output, _kept(used.every_facet)))
        said = (used.every_facet.get("version") or {}).get("datasetVersion")
        if said:
            connection.execute(_VERSION, (dataset, str(said), event.run.run_id, is_output, at))


def _datasets(connection: Connection[DictRow], used: Iterable[Dataset], at: datetime) -> dict[Name, int]:
    """Return each dataset's number, known by its own name or another.

    In one order, lest two events wait for each other.
    """
    found: dict[Name, int] = {}
    for dataset in sorted(used, key=lambda d: (d.namespace, d.name)):
        name = Name(dataset.namespace, dataset.name)
        linked = connection.execute(
            "SELECT d.namespace, d.name FROM symlink s JOIN dataset d ON d.id = s.dataset"
            " WHERE (s.namespace, s.name) = (%s, %s)", (name.namespace, name.name)
        ).fetchone()  # fmt: skip
        real = Name(linked["namespace"], linked["name"]) if linked else name
        given = (real.namespace, real.name, at, at, _kept(dataset.facets))
        found[name] = _one(connection, _NAMED.format("dataset"), given)
        for other in (dataset.facets.get("symlinks") or {}).get("identifiers") or ():
            connection.execute(
                "INSERT INTO symlink VALUES (%s, %s, %s)"
                " ON CONFLICT (namespace, name) DO UPDATE SET dataset = excluded.dataset",
                (other["namespace"], other["name"], found[name]),
            )
    return found


def _one(connection: Connection[DictRow], query: str, parameters: tuple[Any, ...]) -> int:
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return int(row["id"])


def _kept(facets: Facets) -> Jsonb:
    """Return facets to merge in; one that its producer deletes is null."""
    return Jsonb({name: None if facet is None or facet.get("_deleted") else facet for name, facet in facets.items()})


_NAMED = """
INSERT INTO {0} (namespace, name, created_at, updated_at, facets) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (namespace, name) DO UPDATE SET
  facets = CASE WHEN {0}.updated_at <= excluded.updated_at THEN jsonb_strip_nulls({0}.facets || excluded.facets)
           ELSE jsonb_strip_nulls(excluded.facets || {0}.facets) END,
  updated_at = greatest({0}.updated_at, excluded.updated_at),
  created_at = least({0}.created_at, excluded.created_at)
RETURNING id"""
_NEWER = """(run.updated_at < excluded.updated_at
   OR run.updated_at = excluded.updated_at AND (excluded.ended_at IS NOT NULL OR run.ended_at IS NULL))"""
_RUN = f"""
INSERT INTO run VALUES (%(id)s, %(job)s, %(state)s, %(at)s, %(ended)s, %(at)s, %(facets)s)
ON CONFLICT (id) DO UPDATE SET
  state = CASE WHEN %(told)s AND {_NEWER} THEN excluded.state ELSE run.state END,
  started_at = least(run.started_at, excluded.started_at),
  ended_at = CASE WHEN %(told)s AND {_NEWER} THEN excluded.ended_at ELSE run.ended_at END,
  updated_at = greatest(run.updated_at, excluded.updated_at),
  facets = jsonb_strip_nulls(run.facets || excluded.facets)"""
_USE = """
INSERT INTO use VALUES (%s, %s, %s, %s)
ON CONFLICT (run, dataset, is_output) DO UPDATE SET facets = jsonb_strip_nulls(use.facets || excluded.facets)"""
_VERSION = "INSERT INTO version VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
