"""The follower: lets each reader look, again and again, and sends what it tells to the endpoint.

What can't be sent is told again at the next look: a reader's state is kept only once its events are.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from openlineage.client import OpenLineageClient
from structlog.stdlib import BoundLogger

from lineage.store import Store
from services.lineage.counters import Counters
from services.lineage.follow.beside import Beside
from services.lineage.follow.captured import Captured
from services.lineage.follow.commits import Commits
from services.lineage.follow.pipelines import Held, Pipelines
from services.lineage.follow.published import Published
from services.lineage.follow.work import checks, maintenance, replays, resynced
from services.lineage.follow.world import Reader, World
from services.lineage.settings import LineageSettings
from services.stack.stopping import Stop

READERS: tuple[Reader, ...] = (
    Captured(), Pipelines(), Commits(), Held(), checks(), maintenance(), replays(), resynced(), Published(), Beside(),
)  # fmt: skip
# It rests at least so many times as long as a look takes, however many tables there are.
REST = 4


def client(url: str, api_key: str) -> OpenLineageClient:
    """Return a client that sends to an endpoint, without adding anything of this process to what it sends."""
    return OpenLineageClient(config={
        "transport": {"type": "http", "url": url, "endpoint": "api/v1/lineage", "timeout": 10, "compression": None,
                      "auth": {"type": "api_key", "apiKey": api_key}, "retry": {"total": 2}},
    })  # fmt: skip


class Follower:
    """Tells of what happens in the lake."""

    def __init__(
        self, settings: LineageSettings, store: Store, sending: OpenLineageClient, counters: Counters, log: BoundLogger,
        readers: Sequence[Reader] = READERS,
    ) -> None:  # fmt: skip
        self._settings, self._store, self._sending = settings, store, sending
        self._counters, self._log, self._readers = counters, log, readers
        self._trouble: dict[str, str] = {}

    def run(self, stop: Stop) -> None:
        """Look until asked to stop."""
        pause = self._settings.lineage_seconds
        while not stop.wait(pause):
            began = time.monotonic()
            self.look()
            pause = max(self._settings.lineage_seconds, REST * (time.monotonic() - began))

    def look(self) -> int:
        """Look once, and say how many events were told. A reader that fails leaves the others alone."""
        world = World(self._settings, datetime.now(UTC))
        told = 0
        for reader in self._readers:
            try:
                told += self._read(reader, world)
                self._trouble.pop(reader.name, None)
            except Exception as error:
                # Whatever it is: without this thread nothing would be told any more, and nobody would see that.
                self._counters.trouble.labels(reader.name).inc()
                said = " ".join(f"{type(error).__name__}: {error}".split())[:500]
                if self._trouble.get(reader.name) != said:
                    self._log.warning("trouble", reader=reader.name, why=said)
                self._trouble[reader.name] = said
        self._counters.looked.set(time.time())
        return told

    def _read(self, reader: Reader, world: World) -> int:
        told = 0
        for events, state in reader.look(world, self._store.state(reader.name)):
            for event in events:
                self._sending.emit(event)
            told += len(events)
            self._counters.emitted.labels(reader.name).inc(len(events))
            self._store.remember(reader.name, state)
        if told:
            self._log.info("told", reader=reader.name, events=told)
        return told
