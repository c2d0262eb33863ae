"""Pace: when the next batch begins. A batch costs much the same whether it brings few changes or many, so they come as
seldom as the freshness that is asked for allows.
"""

# From a commit in the source until its records are in Kafka.
UPSTREAM_SECONDS = 1.0
# What a batch is expected to take: the slowest of so many.
REMEMBERED = 5


class Pace:
    """``freshness``: how old what readers see may become, in seconds."""

    def __init__(self, freshness: float) -> None:
        self._freshness = freshness
        self._took: list[float] = []

    def pause(self, took: float, behind: bool) -> float:
        """How long to wait after a batch that ``took`` so many seconds. ``behind``: there was more than it could take.

        A change that comes right after a batch was planned waits for that batch, for the pause, and for its own batch.
        """
        self._took = [*self._took, took][-REMEMBERED:]
        return 0.0 if behind else max(0.0, self._freshness - UPSTREAM_SECONDS - 2 * max(self._took))
