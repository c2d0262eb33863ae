"""Look at all parts, for ever, each in a thread of its own: one that doesn't answer keeps no other waiting."""

import threading
import time
from collections.abc import Iterable

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


class Looker:
    """Looks at parts until it is stopped."""

    def __init__(self, parts: Iterable[Part], house: House, meter: Meter, stop: Stop, log: BoundLogger) -> None:
        self._house, self._meter, self._stop, self._log = house, meter, stop, log
        self._threads = [
            threading.Thread(target=self._run, args=(part,), name=part.name, daemon=True) for part in parts
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def _run(self, part: Part) -> None:
        while not self._stop.asked:
            self.look(part)
            self._stop.wait(part.every)

    def look(self, part: Part) -> None:
        """Look at a part once, and note how that went."""
        began, error = time.monotonic(), None
        try:
            part.look(self._house, self._meter)
        except PASSING as passing:
            error = " ".join(f"{passing}".split())[:300] or type(passing).__name__
        took = time.monotonic() - began
        known = self._house.looked.get(part.name)
        if error is not None and (known is None or known.error is None):
            self._log.warning("look_failed", part=part.name, why=error)
        self._house.note(part.name, took, error)
        self._meter.put("lakehouse_look_failed", float(error is not None), part=part.name)
        self._meter.put("lakehouse_look_seconds", took, part=part.name)
        if error is None:
            self._meter.put("lakehouse_looked_timestamp_seconds", time.time(), part=part.name)
