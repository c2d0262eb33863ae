"""Pace the commits: which tables a batch commits to, and when the next one begins.

A commit costs much the same whether it brings few changes or many. So each table has its commits as seldom as the
freshness that is required of it allows.
"""

import time
from collections.abc import Callable, Collection

# From a commit in the source until its records are in Kafka.
UPSTREAM_SECONDS = 1.0
# What a batch is expected to take: as long as the slowest but one of so many. If one alone that was slow, because of
# something else that was going on, had the next ones come sooner, each of them would cost as much as a full one.
BATCHES_REMEMBERED, SLOWEST_IGNORED = 5, 1


class Pace:
    """The pace of a mirror's commits.

    ``default``: how old what readers see of a table may become, in seconds, where nothing else is required.
    """

    def __init__(self, default: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._default, self._clock = default, clock
        self._freshness: dict[str, float] = {}
        # Since when a table may have changes that it hasn't: the beginning of the last batch that left it none.
        self._since: dict[str, float] = {}
        self._durations: list[float] = []
        self._began = clock()

    def add(self, topic: str, freshness: float) -> None:
        """Note a table, and the freshness that is required of it."""
        self._freshness[topic] = freshness

    def begin(self) -> None:
        """Note that a batch begins."""
        self._began = self._clock()

    def can_wait(self, topic: str) -> bool:
        """Return whether a table's changes may be left out of this batch, because the next one is in time for them."""
        if topic not in self._since:
            return False
        following = self._began + self._interval(min([self._default, *self._freshness.values()]))
        return following < self._since[topic] + self._interval(self._freshness[topic])

    def end(self, committed: bool, waiting: Collection[str], behind: bool) -> float:
        """Return how long to wait after the batch, in seconds.

        ``committed``: whether any table was; ``waiting``: the tables that were left out; ``behind``: there was more
        than the batch could take.

        A change that comes right after a batch was planned waits for that batch, for the pause, and for its own batch.
        """
        now = self._clock()
        if committed:
            self._durations = [*self._durations, now - self._began][-BATCHES_REMEMBERED:]
        self._since.update(dict.fromkeys(self._freshness.keys() - waiting, self._began))
        if behind or not (committed or waiting):
            return 0.0
        following = [self._since[topic] + self._interval(freshness) for topic, freshness in self._freshness.items()]
        return max(0.0, min([self._began + self._interval(self._default), *following]) - now)

    def _interval(self, freshness: float) -> float:
        """Return the time from the beginning of one batch to that of the next, at most."""
        slowest = sorted(self._durations)[-1 - SLOWEST_IGNORED :]
        return max(0.0, freshness - UPSTREAM_SECONDS - min(slowest, default=0.0))
