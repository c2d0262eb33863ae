"""What a person sees while the toolchain is installed: live rows on a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from .commands import tail

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

HEARTBEAT = 30.0
"""Seconds after which a plain line says what is still going on."""


class Reporter(Protocol):
    """Told about each component as it starts and ends, from any thread."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

    def started(self, name: str, title: str, log: Path) -> None:
        """Say that a component is being installed; its output goes to `log`."""

    def ended(self, name: str, *, failed: bool) -> None:
        """Say that a component is installed, or has failed."""

    def leave(self) -> None:
        """Say nothing more: somebody else does."""


class PlainReporter:
    """A line when a component starts and when it ends, and now and then one about those that take long."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic, heartbeat: float = HEARTBEAT) -> None:
        self._out = out
        self._clock = clock
        self._heartbeat = heartbeat
        self._running: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._quiet = False
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._watch.join()

    def started(self, name: str, title: str, log: Path) -> None:  # noqa: ARG002  # lines don't follow the log
        """Print that a component is being installed."""
        with self._lock:
            self._running[name] = (title, self._clock())
            self._say(f"installing {title} …")

    def ended(self, name: str, *, failed: bool) -> None:
        """Print that a component is installed or has failed, and how long that took."""
        with self._lock:
            title, since = self._running.pop(name)
            self._say(f"{'FAILED' if failed else 'installed'} {title} ({self._clock() - since:.0f} s)")

    def leave(self) -> None:
        """Print what goes on, and nothing more."""
        with self._lock:
            for title, since in self._running.values():
                self._say(f"still installing {title} ({self._clock() - since:.0f} s), while the rest goes on")
            self._quiet = True
            self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(self._heartbeat):
            with self._lock:
                for title, since in self._running.values():
                    self._say(f"still installing {title} ({self._clock() - since:.0f} s)")

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(f"toolchain: {text}", file=self._out, flush=True)


class LiveReporter:
    """A row a component on a terminal, with a spinner, the time it took and the last line of its log; needs Rich."""

    def __init__(self, titles: Sequence[str]) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        width = max((len(title) for title in titles), default=0)
        self._progress: Progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}", table_column=Column(min_width=width)),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[detail]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            expand=True,
        )
        self._tasks: dict[str, tuple[TaskID, Path]] = {}
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._progress.start()
        self._watch.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._watch.join()
        self._progress.stop()

    def started(self, name: str, title: str, log: Path) -> None:
        """Show a row for a component."""
        if self._over.is_set():
            return
        self._tasks[name] = (self._progress.add_task(title, total=1, detail=""), log)

    def ended(self, name: str, *, failed: bool) -> None:
        """Finish the row of a component."""
        task, _ = self._tasks.pop(name, (None, None))
        if task is None:
            return
        if failed:
            self._progress.update(task, detail="[red]failed[/]")
            self._progress.stop_task(task)
        else:
            self._progress.update(task, completed=1, detail="")

    def leave(self) -> None:
        """Leave the rows as they are."""
        for task, _ in self._tasks.values():
            self._progress.update(task, detail="goes on")
            self._progress.stop_task(task)
        self._tasks.clear()
        self._over.set()
        self._watch.join()
        self._progress.stop()

    def _follow(self) -> None:
        while not self._over.wait(0.5):
            for task, log in list(self._tasks.values()):
                last = tail(log, 1)
                self._progress.update(task, detail=last[0].replace("[", "\\[") if last else "")
