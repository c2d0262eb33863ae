"""Look at all parts, for ever, each in a thread of its own: one that doesn't answer keeps no other waiting."""

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import duckdb
import httpx
from confluent_kafka import KafkaException
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from structlog.stdlib import BoundLogger

from pipelines.metrics.meter import Meter
from pipelines.sources.base.errors import SourceError
from services.console.house import House
from services.console.look.part import Part
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop

# What a server that is down, or just comes up, makes of a look: it is tried again.
PASSING = (
    LakehouseError, SourceError, KafkaException, RESTError, RequestException, httpx.HTTPError, duckdb.Error, OSError,
    # A file that upkeep has deleted between the look at the metadata and that at the file.
    ValueError, KeyError,
)  # fmt: skip
# A look hangs once it takes so many seconds, and so many times as long as the last one that got an answer. The first
# one reads everything: nobody knows yet how long that takes.
HANGS_SECONDS, HANGS_TIMES, FIRST_SECONDS = 30.0, 3.0, 180.0
WATCH_SECONDS = 5.0


class Looker:
    """Looks at parts until it is stopped. ``clock``: monotonic, in seconds."""

    def __init__(
        self,
        parts: Iterable[Part],
        house: House,
        meter: Meter,
        stop: Stop,
        log: BoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._house, self._meter, self._stop, self._log, self._clock = house, meter, stop, log, clock
        self._lock = threading.Lock()
        # The looks that are under way: part to when they began.
        self._began: dict[str, float] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(part,), name=part.name, daemon=True) for part in parts
        ]
        self._threads.append(threading.Thread(target=self._watch, name="watch", daemon=True))

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def _run(self, part: Part) -> None:
        while not self._stop.asked:
            self.look(part)
            self._stop.wait(part.every)

    def _watch(self) -> None:
        while not self._stop.asked:
            self.note_hanging()
            self._stop.wait(WATCH_SECONDS)

    def look(self, part: Part) -> None:
        """Look at a part once, and note how that went."""
        began, error = self._clock(), None
        with self._lock:
            self._began[part.name] = began
        try:
            part.look(self._house, self._meter)
        except PASSING as passing:
            error = " ".join(f"{passing}".split())[:300] or type(passing).__name__
        took = self._clock() - began
        with self._lock:
            del self._began[part.name]
            self._note(part.name, took, error)
        self._meter.put("lakehouse_look_seconds", took, part=part.name)
        if error is None:
            self._meter.put("lakehouse_looked_timestamp_seconds", time.time(), part=part.name)

    def note_hanging(self) -> None:
        """Note the looks that take much longer than they should: their servers may never answer."""
        with self._lock:
            for part, began in self._began.items():
                takes, known = self._clock() - began, self._house.looked.get(part)
                if takes > _bound(known.usual if known else None):
                    since = datetime.now(UTC) - timedelta(seconds=takes)
                    self._note(part, takes, f"no answer since {since:%H:%M:%S} UTC", since)

    def _note(self, part: str, took: float, error: str | None, since: datetime | None = None) -> None:
        known = self._house.looked.get(part)
        if error is not None and (known is None or known.error is None):
            self._log.warning("look_failed", part=part, why=error)
        self._house.note(part, took, error, since)
        self._meter.put("lakehouse_look_failed", float(error is not None), part=part)


def _bound(usual: float | None) -> float:
    """Return after how many seconds a look hangs. ``usual``: what the last one with an answer took; None: none had."""
    return FIRST_SECONDS if usual is None else max(HANGS_SECONDS, HANGS_TIMES * usual)
