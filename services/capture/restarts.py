"""When a failed task is started again, and when not any more. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum

MAX_RESTARTS = 5
FIRST_WAIT_SECONDS = 2.0
STABLE_SECONDS = 300.0


class Action(StrEnum):
    """What the watcher does now."""

    NOTHING = "nothing"
    RESTART = "restart"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class Restarts:
    """Restarts so far since the task last ran undisturbed for STABLE_SECONDS. Times are of one monotonic clock.

    Waits double: 2, 4, 8, 16 and 32 seconds. After that a person must look; should the task run again by their hand,
    all is forgotten in time.
    """

    used: int = 0
    next_at: float | None = None
    running_since: float | None = None
    gave_up: bool = False

    def observe(self, failed: bool, now: float) -> tuple["Restarts", Action]:
        """Return what becomes of the count, and what is to be done, when the task is seen at ``now``.

        ``failed``: whether it has.
        """
        if not failed:
            return self._undisturbed(now), Action.NOTHING
        seen = replace(self, running_since=None)
        if self.next_at is None and not self.gave_up:
            if self.used >= MAX_RESTARTS:
                return replace(seen, gave_up=True), Action.GIVE_UP
            return replace(seen, next_at=now + FIRST_WAIT_SECONDS * 2**self.used), Action.NOTHING
        if self.next_at is None or now < self.next_at:
            return seen, Action.NOTHING
        # Connect takes a moment to carry it out; until then the task still counts as failed.
        return replace(seen, used=self.used + 1, next_at=None), Action.RESTART

    def _undisturbed(self, now: float) -> "Restarts":
        since = now if self.running_since is None else self.running_since
        used = 0 if now - since >= STABLE_SECONDS else self.used
        return Restarts(used=used, running_since=since)
