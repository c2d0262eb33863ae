"""Hold a table that can't go on, while the others go on.

Nothing of it is skipped: its ledger stays where it is, the records stay in Kafka, and once the table goes on, what it
lacks is read from there. A hold is tried again after a while, and at once when the table's schema changes in the source
or somebody decides about dead letters. A table that the source hasn't any more is let go of, and one that a person has
given up: it stays as it is, and nobody waits for it. See infra/decisions/016-held-tables.md.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from threading import Lock

from pipelines.errors import AwaitsInput, StopPipeline, one_line

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0
# In a state directory: what a process holds, by topic or table, and why, as JSON.
HELD = "held.json"
# What is told of a hold begins with one of these, where it isn't one that a person must mend.
RETRIED, GIVEN_UP, AWAITS = "tried again soon: ", "given up: ", "waits: "


class Outlook(Enum):
    """What becomes of a table that is held."""

    MENDED = "a person must mend what holds it"
    PASSING = "it may pass by itself"
    AWAITING = "the lake hasn't got yet what it is made of"
    GIVEN_UP = "a person has given up what it lacks"
    GONE = "the source has no such table any more"
    LEFT_OUT = "it can't be mirrored under its name, or that of a column, and is left out by now"


@dataclass(frozen=True)
class Hold:
    """The hold of one table: why it waits, the offsets up to which it is in the lake, and when it is tried again."""

    reason: str
    positions: Mapping[int, int] = field(default_factory=dict)
    outlook: Outlook = Outlook.MENDED
    pause: float = 0.0
    until: float = 0.0

    @property
    def let_go(self) -> bool:
        """Whether nobody waits for what the table lacks."""
        return self.outlook in (Outlook.GIVEN_UP, Outlook.GONE, Outlook.LEFT_OUT)

    @property
    def is_stuck(self) -> bool:
        """Whether somebody is to know: it neither waits for what is still to come nor was let go of."""
        return not self.let_go and self.outlook is not Outlook.AWAITING

    @property
    def told(self) -> str:
        """The reason as others are told it; nothing of a table that is gone, or that capture names as left out."""
        if self.outlook in (Outlook.GONE, Outlook.LEFT_OUT):
            return ""
        return {Outlook.PASSING: RETRIED, Outlook.AWAITING: AWAITS, Outlook.GIVEN_UP: GIVEN_UP}.get(
            self.outlook, ""
        ) + self.reason


class Holds:
    """The holds, by topic. Written by the batch, read by the thread that publishes positions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._held: dict[str, Hold] = {}

    def stuck(self) -> set[str]:
        """Return the topics of which somebody is to know that they are held."""
        return {topic for topic, hold in self.all().items() if hold.is_stuck}

    def put(
        self, topic: str, error: BaseException, positions: Mapping[int, int], let_go: Outlook | None = None
    ) -> bool:
        """Hold a table, or let it go; return whether that is news.

        What a person must mend is tried seldom, what may pass soon and then ever less often, and what is let go of only
        where something new comes.
        """
        reason = f"{error}" if isinstance(error, StopPipeline) else one_line(error)
        with self._lock:
            before = self._held.get(topic)
            again = FIRST_PAUSE_SECONDS if before is None else min(2 * before.pause, LONGEST_PAUSE_SECONDS)
            seldom = isinstance(error, StopPipeline) and not error.may_pass
            passing = Outlook.AWAITING if isinstance(error, AwaitsInput) else Outlook.PASSING
            outlook = let_go or (Outlook.MENDED if seldom else passing)
            pause = LONGEST_PAUSE_SECONDS if seldom else again
            until = inf if let_go else self._clock() + pause
            self._held[topic] = Hold(reason, dict(positions), outlook, pause, until)
            return before is None or (before.reason, before.let_go) != (reason, let_go is not None)

    def release(self, topic: str) -> bool:
        """Release a table; return whether it was held."""
        with self._lock:
            return self._held.pop(topic, None) is not None

    def is_held(self, topic: str) -> bool:
        """Return whether the table is held."""
        with self._lock:
            return topic in self._held

    def due(self, topic: str, came: bool = False) -> bool:
        """Return whether the table is held, and the time to try it again has come.

        ``came``: there are new records of it, which one that was let go of is tried for.
        """
        with self._lock:
            hold = self._held.get(topic)
            return hold is not None and (self._clock() >= hold.until or (came and hold.let_go))

    def all(self) -> dict[str, Hold]:
        """Return all holds, by topic."""
        with self._lock:
            return dict(self._held)
