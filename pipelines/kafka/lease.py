"""The lease: of the mirrors of one source, wherever they run, one works. The others wait, and say so.

It is the only partition of a topic that nothing is written to, which Kafka gives to one member of a group. A mirror
that starts again on its state directory is the same member, and has it at once; another one gets it when nothing has
been heard of that member for the length of a session.
"""

import time
import uuid
from pathlib import Path
from threading import Event

from confluent_kafka import Consumer
from structlog.stdlib import BoundLogger

from pipelines.kafka.client import client_config, create_topic

SESSION_SECONDS = 20
POLL_SECONDS = 0.2
SAY_EVERY_SECONDS = 10


class Lease:
    """A mirror's membership, which begins now. Used by one thread."""

    def __init__(self, kafka_bootstrap: str, source: str, state_dir: Path, log: BoundLogger) -> None:
        self._name, self._log = f"lakehouse.lease.{source}", log
        create_topic(kafka_bootstrap, self._name, {})
        self._consumer = Consumer(
            client_config(kafka_bootstrap) | {
                "group.id": self._name, "group.instance.id": _identity(state_dir / "identity"),
                "session.timeout.ms": SESSION_SECONDS * 1000, "enable.auto.commit": False,
                # Whoever has it keeps it when another one joins.
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )  # fmt: skip
        self._consumer.subscribe([self._name])

    def acquire(self, stop: Event) -> bool:
        """Wait until this mirror has the lease; return False if ``stop`` was set before."""
        logged_at = time.monotonic()
        while not self.is_held():
            if stop.wait(POLL_SECONDS):
                return False
            if time.monotonic() - logged_at > SAY_EVERY_SECONDS:
                logged_at = time.monotonic()
                self._log.warning("waiting_for_lease", lease=self._name, why="another mirror of this source has it")
        return True

    def close(self) -> None:
        """End the membership on this side. The group keeps it for this mirror until the session's time is up."""
        self._consumer.close()

    def is_held(self) -> bool:
        """Return whether this mirror has the lease now. To be called again and again, or it is lost."""
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        return bool(self._consumer.assignment()) and not (error is not None and error.fatal())


def _identity(path: Path) -> str:
    """Return the id that the mirrors of one state directory share."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(str(uuid.uuid4()))
    except FileExistsError:
        pass
    return path.read_text(encoding="utf-8")
