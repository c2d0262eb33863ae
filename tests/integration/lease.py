"""Leases as mirrors hold them, without the mirrors."""

from pathlib import Path
from threading import Event
from typing import Any

from pipelines.kafka.lease import Lease


class Candidate:
    """A mirror that would have the lease of a source."""

    def __init__(self, kafka_bootstrap: str, source: str, state_dir: Path) -> None:
        self._gives_up, self.said = Event(), list[str]()
        self.lease = Lease(kafka_bootstrap, source, state_dir, self)  # type: ignore[arg-type]

    def warning(self, event: str, **_: Any) -> None:
        """As the log that the lease writes to; it gives up once it says that it waits."""
        self.said.append(event)
        self._gives_up.set()

    def gets_it(self) -> bool:
        """Whether it has the lease before it says that it waits."""
        return self.lease.acquire(self._gives_up)

    def ends(self) -> None:
        """It is heard of no more."""
        self.lease._consumer.close()
