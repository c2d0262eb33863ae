"""Shows how services get to where they should: a live list on a terminal, else a line a change."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text


class Progress(Protocol):
    """Is told of changes, from any thread."""

    def update(self, service: str, doing: str, done: bool = False) -> None:
        """Say what a service does now; `done`: it is where it should be."""


class Lines:
    """A line a change, each with the seconds since the begin."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._since = time.monotonic()

    def update(self, service: str, doing: str, done: bool = False) -> None:
        """Print a line."""
        sign = "✓" if done else "·"
        text = f"{time.monotonic() - self._since:6.1f} s {sign} {service:<20} {doing}"
        self._console.print(text, markup=False, highlight=False)


class LiveList:
    """One row a service, in place."""

    def __init__(self, services: Sequence[str]) -> None:
        self._rows: dict[str, tuple[str, bool, float]] = dict.fromkeys(services, ("waits", False, 0.0))
        self._since = time.monotonic()
        self._spinner = Spinner("dots")
        self._lock = Lock()

    def update(self, service: str, doing: str, done: bool = False) -> None:
        """Change a row."""
        with self._lock:
            self._rows[service] = (doing, done, time.monotonic() - self._since)

    def __rich__(self) -> Table:
        """Render the list as it is now."""
        with self._lock:
            rows = dict(self._rows)
        table = Table.grid(padding=(0, 1))
        for service, (doing, done, at) in rows.items():
            sign = Text("✓", "green") if done else Text("·", "dim") if doing == "waits" else self._spinner
            elapsed = at if done or doing == "waits" else time.monotonic() - self._since
            style = "" if done else "dim" if doing == "waits" else "yellow"
            table.add_row(sign, service, Text(doing, style), f"{elapsed:.1f} s" if elapsed else "")
        return table


@contextmanager
def progress(console: Console, services: Sequence[str]) -> Iterator[Progress]:
    """Show progress of these services on a console."""
    if not console.is_terminal:
        yield Lines(console)
        return
    rows = LiveList(services)
    with Live(rows, console=console, refresh_per_second=8):
        yield rows
