"""When a task that Connect calls running moves nothing any more, and is started anew. Pure.

Connect knows only whether a task's thread lives, and one that waits for an answer which never comes lives for ever: the
converter asks the schema registry without a time limit, so a connection that was lost without a word is enough. Or it
lives although nobody reads the log any more (Debezium's streaming ends without an error when its report of a position
fails). But what the connector stores as its position changes with all that it writes, and capture's marks have it
always something to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What the stored position has of an incremental snapshot while one is under way begins with it.
INCREMENTAL_SNAPSHOT = "incremental_snapshot_"

STALL_SECONDS = 120.0
READING_SECONDS = 60.0
MAX_DOUBLINGS = 5


@dataclass(frozen=True)
class Flow:
    """Since when the stored position, in the connector's own words, hasn't changed. Times are of one monotonic clock.

    ``due``: a position of the log with changes before it that aren't stored; ``since``: when PostgreSQL was first seen
    to have sent all up to there, or to send to nobody; ``restarts``: how often the task was started anew with the same
    position stored.
    """

    stored: Mapping[str, Any] | None = None
    due: int | None = None
    since: float | None = None
    restarts: int = 0

    @property
    def patience(self) -> float:
        """For how long nothing may be stored: longer after each restart, since what hangs stays in Connect's memory."""
        return STALL_SECONDS * 2.0 ** min(self.restarts, MAX_DOUBLINGS)

    def observe(
        self, stored: Mapping[str, Any] | None, written: int, sent: int | None, now: float
    ) -> tuple["Flow", bool]:
        """Return what becomes of it, and whether to start the task anew.

        ``stored`` and ``written``, the end of the log, were looked at, then a mark was left, then this is called: so
        the log that the next call knows of has more than is ``stored`` now. ``sent``: up to where PostgreSQL has sent
        the log; None while nobody reads it, as in the initial snapshot, which may take hours. As long as PostgreSQL
        itself is busy with a large transaction, ``sent`` stays before its end.
        """
        if stored is None or stored != self.stored or ("snapshot" in stored and not stored.get("snapshot_completed")):
            return Flow(stored), False
        due = written if self.due is None else self.due
        since = now if self.since is None and (sent is None or sent >= due) else self.since
        if since is not None and now - since >= self.patience:
            return Flow(stored, restarts=self.restarts + 1), True
        return Flow(stored, due, since, self.restarts), False


@dataclass(frozen=True)
class Reading:
    """Since when an incremental snapshot hasn't come on, by what the connector stores of it.

    One that meets a table whose columns have just changed may end without a word; another task takes it up again.
    ``restarts``: how often the task was started anew with the same stored.
    """

    stored: Mapping[str, Any] | None = None
    since: float = 0.0
    restarts: int = 0

    def observe(self, stored: Mapping[str, Any] | None, now: float) -> tuple["Reading", bool]:
        """Return what becomes of it, and whether to start the task anew. ``stored``: what the connector has stored."""
        found = {name: value for name, value in (stored or {}).items() if name.startswith(INCREMENTAL_SNAPSHOT)}
        if not found or found != self.stored:
            return Reading(found or None, now), False
        if now - self.since >= READING_SECONDS * 2.0 ** min(self.restarts, MAX_DOUBLINGS):
            return Reading(found, now, self.restarts + 1), True
        return self, False
