"""Tables that changed without events: have them read again, compare them, and say what became of them.

The source writes such tables down itself. What was asked for already, or may be needless, is proved by a round that
begins anew; where that finds a difference, or rows may be gone, the table is resynced.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from pyiceberg.exceptions import RESTError
from structlog.stdlib import BoundLogger

from pipelines.sources.base.capture import Remedy, Reread
from pipelines.sources.base.database import SourceSession
from pipelines.sources.base.errors import SourceError
from services.capture.connect import Connect
from services.operations.audit_trail import audited
from services.operations.resync.resync import resync
from services.stack.errors import LakehouseError
from services.stack.lake import open_catalog
from services.stack.progress import OnProgress
from services.verifier.settings import VerifierSettings
from services.verify.rounds import TableState

EQUAL = "the lake equals its source"
AGAIN_SECONDS = 30.0
URGENT_REST = 2.0


@dataclass
class Rereads:
    """What is under way. ``rounds``: table to the newest request that a round has begun for.

    ``resynced``: table to the newest request that a resync was made for. ``waiting``: something is left that can be
    done now; ``open``: something is left at all.
    """

    settings: VerifierSettings
    log: BoundLogger
    on_progress: OnProgress
    rounds: dict[str, int] = field(default_factory=dict)
    resynced: dict[str, int] = field(default_factory=dict)
    tried_at: dict[str, float] = field(default_factory=dict)
    waiting: bool = False
    open: bool = False

    def take(self, source: SourceSession, states: dict[str, TableState]) -> dict[str, TableState]:
        """Take the next step for every table, and return the states with what that changes.

        What fails for one table is said, and tried again after a while. Raises SourceError.
        """
        now, self.waiting, self.open = dict(states), False, False
        for table, requests in _by_table(source.open_rereads()).items():
            self.open = True
            close = _closer(source, requests, self.log)
            if table not in states:
                close("it isn't captured any more")
                continue
            if time.monotonic() < self.tried_at.get(table, 0.0) + AGAIN_SECONDS:
                continue
            try:
                now[table] = self._step(states[table], requests, close)
            except (LakehouseError, SourceError, KafkaException, RESTError) as error:
                self.tried_at[table] = time.monotonic()
                self.log.warning("not read again yet", table=table, error=" ".join(str(error).split()))
                continue
            # One that can't be compared now is looked at like any other table.
            self.waiting |= now[table].not_compared is None
        return now

    def bounded(self, rest: float, longest: float) -> float:
        """Return how many seconds to rest, of ``rest``: few while something can be done, ``longest`` while any is left.

        So the process doesn't idle then: it would be woken at once, since something is left.
        """
        if self.waiting:
            return min(rest, URGENT_REST)
        return min(rest, longest) if self.open else rest

    def _step(self, state: TableState, requests: list[Reread], close: Callable[[str], None]) -> TableState:
        table, newest = state.table, requests[-1].id
        read_again = self.resynced.get(table) == newest
        whole = any(request.how is Remedy.TABLE for request in requests)
        if whole and not read_again:
            return self._resync(state, requests)
        if self.rounds.get(table) != newest:
            if self._is_being_read():
                return state
            self.rounds[table] = newest
            return state.anew()
        if state.ended_at is None:
            return state
        if state.confirmed and not read_again:
            return self._resync(state, requests)
        close(state.not_compared or (f"{state.differences:,} rows differ" if state.confirmed else EQUAL))
        return state

    def _resync(self, state: TableState, requests: list[Reread]) -> TableState:
        """Have the table read again, and begin another round. What fails is tried again at the next turn."""
        table = state.table
        because = "; ".join(sorted({request.why for request in requests}))
        self.log.info("reading again", table=table, why=because)
        with audited(open_catalog(self.settings), "resync", table, because) as doing:
            (done,) = resync(self.settings, [table], False, self.settings.reread_seconds, self.on_progress).tables
            doing.detail |= {"tables": 1, "rows_removed": done.removed or 0}
        self.log.info("read again", table=table, rows=done.read, removed=done.removed)
        self.resynced[table] = self.rounds[table] = requests[-1].id
        return state.anew()

    def _is_being_read(self) -> bool:
        """Return whether the connector is reading tables again: what it hasn't reached yet differs."""
        with Connect(self.settings.connect_url) as connector:
            return connector.reads_tables(self.settings.source_name)


def _by_table(requests: list[Reread]) -> dict[str, list[Reread]]:
    found: dict[str, list[Reread]] = {}
    for request in requests:
        found.setdefault(request.table, []).append(request)
    return found


def _closer(source: SourceSession, requests: list[Reread], log: BoundLogger) -> Callable[[str], None]:
    def close(outcome: str) -> None:
        for request in requests:
            source.close_reread(request, outcome)
        say = log.info if outcome == EQUAL else log.warning
        say("changed without events, and looked after", table=requests[0].table, outcome=outcome,
            why=sorted({request.why for request in requests}))  # fmt: skip

    return close
