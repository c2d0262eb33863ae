"""Forward: sends every event that was taken on to another OpenLineage endpoint, in order, each until it is taken."""

from dataclasses import dataclass

import httpx
from structlog.stdlib import BoundLogger

from lineage.store import Store
from services.lineage.counters import Counters
from services.stack.stopping import Stop

READER = "forward"
PIECE = 200
PAUSE_SECONDS, TROUBLE_SECONDS = 1.0, 10.0


@dataclass(frozen=True)
class Forwarder:
    """Sends events on to another endpoint.

    ``url``: of the endpoint, without its path. An event that it refuses (400) is left out, and told.
    """

    store: Store
    url: str
    api_key: str
    counters: Counters
    log: BoundLogger

    def run(self, stop: Stop) -> None:
        """Send until asked to stop."""
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        pause = PAUSE_SECONDS
        with httpx.Client(base_url=self.url, headers=headers, timeout=10) as client:
            while not stop.wait(pause):
                try:
                    self.send(client, stop)
                    pause = PAUSE_SECONDS
                except httpx.HTTPError as error:
                    if pause == PAUSE_SECONDS:
                        self.log.warning("not_forwarded", to=self.url, why=f"{type(error).__name__}: {error}")
                    pause = TROUBLE_SECONDS

    def send(self, client: httpx.Client, stop: Stop) -> None:
        """Send what waits. Raises httpx.HTTPError; what was sent is remembered."""
        reached = int(self.store.state(READER).get("event", 0))
        while not stop.asked:
            rows = self.store.rows("SELECT id, body FROM event WHERE id > %s ORDER BY id LIMIT %s", (reached, PIECE))
            self._count(reached)
            if not rows:
                return
            for row in rows:
                answer = client.post("/api/v1/lineage", json=row["body"])
                if answer.status_code in (400, 413, 422):
                    self.log.warning("refused", to=self.url, number=row["id"], why=answer.text[:300])
                else:
                    answer.raise_for_status()
                reached = row["id"]
                self.store.remember(READER, {"event": reached})
                self.counters.forwarded.inc()

    def _count(self, reached: int) -> None:
        row = self.store.one("SELECT count(*) AS waiting FROM event WHERE id > %s", (reached,))
        self.counters.waiting.set(row["waiting"] if row else 0)
