"""One event that is to be sent, and what makes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class Event:
    """An event.

    ``value``: the document, or the bytes of a device that sends nonsense. ``delay``: seconds by which it comes later
    than it happened: a phone without a network, a gateway that gathers, a producer that sends once more.
    """

    key: str | None
    value: dict[str, Any] | bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    delay: float = 0.0


class Events(Protocol):
    """What makes the events of one topic. The same seed makes the same ones, at whatever time."""

    def at(self, now: datetime) -> Iterator[Event]:
        """Yield what happens next, which is at ``now``: one event, and what comes of it later."""
        ...


def told(moment: datetime) -> str:
    """Return a moment as JSON documents have it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
