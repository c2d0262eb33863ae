"""Hold a table that can't go on, while the others go on.

Nothing of it is skipped: its ledger stays where it is, the records stay in Kafka, and once the table goes on, what it
lacks is read from there. A hold is tried again after a while, and at once when the table's schema changes in the source
or somebody decides about dead letters. See infra/decisions/016-held-tables.md.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from pipelines.errors import StopPipeline, one_line

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0


@dataclass(frozen=True)
class Hold:
    """The hold of one table: why it waits, the offsets up to which it is in the lake, and when it is tried again."""

    reason: str
    positions: Mapping[int, int] = field(default_factory=dict)
    pause: float = 0.0
    until: float = 0.0


class Holds:
    """The holds, by topic. Written by the batch, read by the thread that publishes positions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._held: dict[str, Hold] = {}

    def put(self, topic: str, error: BaseException, positions: Mapping[int, int]) -> bool:
        """Hold a table; return whether that is news.

        What a person must mend is tried seldom, what may pass soon and then ever less often.
        """
        reason = f"{error}" if isinstance(error, StopPipeline) else one_line(error)
        with self._lock:
            before = self._held.get(topic)
            again = FIRST_PAUSE_SECONDS if before is None else min(2 * before.pause, LONGEST_PAUSE_SECONDS)
            seldom = isinstance(error, StopPipeline) and not error.may_pass
            pause = LONGEST_PAUSE_SECONDS if seldom else again
            self._held[topic] = Hold(reason, dict(positions), pause, self._clock() + pause)
            return before is None or before.reason != reason

    def release(self, topic: str) -> bool:
        """Release a table; return whether it was held."""
        with self._lock:
            return self._held.pop(topic, None) is not None

    def is_held(self, topic: str) -> bool:
        """Return whether the table is held."""
        with self._lock:
            return topic in self._held

    def due(self, topic: str) -> bool:
        """Return whether the table is held, and the time to try it again has come."""
        with self._lock:
            hold = self._held.get(topic)
            return hold is not None and self._clock() >= hold.until

    def all(self) -> dict[str, Hold]:
        """Return all holds, by topic."""
        with self._lock:
            return dict(self._held)
