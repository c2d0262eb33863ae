"""The live workload: several connections, each at its own pace in one common plan."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure
from tenacity import Retrying, retry_if_exception_type, wait_random

from services.shop.database import highest_keys, next_history
from services.shop.history import History
from services.shop.share import read_share
from services.shop.summary import LATE_SECONDS, Progress, Summary, Tally, summed
from services.shop.transactions import Shopper, Transaction

OnProgress = Callable[[Progress], None]

PROGRESS_SECONDS = 1.0
# PostgreSQL has rolled these back whole and asks for another try; so the workload's history stays what it was to be.
RETRIED = (DeadlockDetected, SerializationFailure)


def run(
    dsn: str,
    rate: float,
    duration: float | None,
    connections: int = 4,
    seed: int = 0,
    on_progress: OnProgress = lambda _progress: None,
    stop: threading.Event | None = None,
) -> Summary:
    """Run ``rate`` transactions a second for ``duration`` seconds (None: until stopped), spread over ``connections``.

    Each transaction has its time, whatever became of those before it: a connection that falls behind catches up, so
    that the rate doesn't drift. All planned transactions are run, so that seed, run number, parameters and the state
    of the tables at the start decide what they hold in the end; only when the database can't keep up by far (half as
    long again, and 10 seconds) is the rest left out, and ``complete`` is false.

    ``on_progress`` is called about once a second in the caller's thread. ``stop``, when set, ends the run after the
    transactions under way. Raises psycopg.Error, as soon as all connections have stopped, when one of them failed.
    """
    stop = stop or threading.Event()
    planned = None if duration is None else round(rate * duration)
    with psycopg.connect(dsn, autocommit=True) as connection:
        history = next_history(connection, seed)
        highest = highest_keys(connection)
        shares = [read_share(connection, history, number, connections, highest) for number in range(connections)]
    started = time.monotonic()
    deadline = None if duration is None else started + 1.5 * duration + 10
    workers = [
        _Worker(dsn, Shopper(share), _Plan(number, connections, rate, planned, started, deadline), stop)
        for number, share in enumerate(shares)
    ]
    threads = [threading.Thread(target=worker.run, name=f"shop-{n}", daemon=True) for n, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    try:
        _wait(threads, workers, planned, started, on_progress)
    finally:
        # Reached early only when the caller's progress raised.
        if any(thread.is_alive() for thread in threads):
            stop.set()
        for thread in threads:
            thread.join()
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    return _summary(history, workers, planned, time.monotonic() - started)


@dataclass(frozen=True)
class _Plan:
    """When a connection's transactions are due. Times are of the monotonic clock."""

    connection: int
    connections: int
    rate: float
    planned: int | None
    started: float
    deadline: float | None

    def due(self, number: int) -> float | None:
        """Return when the connection's transaction of this number is due; None when there is none."""
        overall = number * self.connections + self.connection
        if self.planned is not None and overall >= self.planned:
            return None
        return self.started + overall / self.rate


@dataclass
class _Worker:
    dsn: str
    shopper: Shopper
    plan: _Plan
    stop: threading.Event
    tally: Tally = field(default_factory=Tally)
    error: psycopg.Error | None = None

    def run(self) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                self._run(connection)
        except psycopg.Error as error:
            self.error = error
            self.stop.set()

    def _run(self, connection: psycopg.Connection) -> None:
        while (due := self.plan.due(self.tally.transactions)) is not None:
            ahead = due - time.monotonic()
            if self.stop.wait(ahead) if ahead > 0 else self.stop.is_set():
                return
            now = time.monotonic()
            if self.plan.deadline is not None and now > self.plan.deadline:
                return
            self.tally.behind = now - due
            self.tally.late += now - due > LATE_SECONDS
            self._execute(connection, self.shopper.next())

    def _execute(self, connection: psycopg.Connection, transaction: Transaction) -> None:
        again = Retrying(retry=retry_if_exception_type(RETRIED), wait=wait_random(0, 0.05), reraise=True)
        cursors = again(_transact, connection, transaction)
        tally = self.tally
        tally.transactions += 1
        tally.kinds[transaction.kind] += 1
        if transaction.abandoned:
            tally.abandoned += 1
            return
        for change, cursor in zip(transaction.changes, cursors, strict=True):
            if change.op == "cascade":
                row = cursor.fetchone()
                rows, op = (row[0] if row else 0), "update"
            else:
                rows, op = cursor.rowcount, str(change.op)
            if rows:
                tally.changes[change.table, op] += rows
                tally.row_changes += rows


def _transact(connection: psycopg.Connection, transaction: Transaction) -> list[psycopg.Cursor]:
    with connection.pipeline(), connection.transaction(force_rollback=transaction.abandoned):
        return [connection.execute(change.query, change.values) for change in transaction.changes]


def _wait(
    threads: list[threading.Thread],
    workers: list[_Worker],
    planned: int | None,
    started: float,
    on_progress: OnProgress,
) -> None:
    before, then = 0, started
    while any(thread.is_alive() for thread in threads):
        until = then + PROGRESS_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        now = time.monotonic()
        done = sum(worker.tally.transactions for worker in workers)
        rows = sum(worker.tally.row_changes for worker in workers)
        behind = max(worker.tally.behind for worker in workers)
        on_progress(Progress(now - started, done, planned, rows, (done - before) / (now - then), behind))
        before, then = done, now


def _summary(history: History, workers: list[_Worker], planned: int | None, seconds: float) -> Summary:
    tallies = [worker.tally for worker in workers]
    kinds, changes = summed(tallies)
    done = sum(tally.transactions for tally in tallies)
    return Summary(
        run=history.number,
        seed=history.seed,
        connections=len(workers),
        transactions=done,
        planned=planned,
        complete=planned is None or done == planned,
        abandoned=sum(tally.abandoned for tally in tallies),
        kinds=kinds,
        changes=changes,
        row_changes=sum(tally.row_changes for tally in tallies),
        seconds=round(seconds, 3),
        rate=round(done / seconds, 2),
        late_share=round(sum(tally.late for tally in tallies) / max(1, done), 4),
    )
