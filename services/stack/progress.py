"""What a long look reports while it runs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """A stage of the work on ``subject``: ``done`` of ``total`` rows, offsets or bytes; None: nobody knows."""

    subject: str
    stage: str
    done: int = 0
    total: int | None = None


OnProgress = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Report nothing."""
