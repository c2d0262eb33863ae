"""What makes a history repeatable: its random streams and its clock.

A load or a run has a number, taken from a sequence of the database. Everything it writes follows from the state of the
database before, its seed, its number and its parameters: no clock, no order of threads, no random source of the
machine. Same seed on two databases with the same state: same contents. The same seed again on one database: a new
number, so a new history, with new keys.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_BETWEEN_RUNS = timedelta(days=1)


@dataclass(frozen=True)
class History:
    """One load or run."""

    seed: int
    number: int

    def stream(self, name: str) -> Random:
        """Return the random stream of this name; independent of every other name's."""
        return Random(f"{self.seed}/{self.number}/{name}")  # noqa: S311

    @property
    def begins(self) -> datetime:
        """The time at which this history begins, in its own calendar: a day for each number."""
        return _EPOCH + self.number * _BETWEEN_RUNS
