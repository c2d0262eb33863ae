"""What a runner tells about its stack, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field
from rich.table import Table
from rich.text import Text

from services.stack.console import Grid

State = Literal["healthy", "running", "completed", "starting", "unhealthy", "failed", "stopped"]
RunnerName = Literal["compose", "process"]
GOOD: frozenset[State] = frozenset({"healthy", "running", "completed"})
_COLOURS = {"starting": "yellow", "unhealthy": "red", "failed": "red", "stopped": "dim"}
MIB = 1024**2
# Of 80 columns; the rest is for what is said.
LABEL_WIDTH = 24


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True)


class ServiceReport(_Report):
    """One service. `running` is a server without a health check, `completed` a one-shot that ended well."""

    name: str
    state: State
    detail: str = ""
    ports: tuple[int, ...] = ()
    memory_bytes: int | None = None
    uptime_seconds: float | None = None
    restarts: int = 0
    pid: int | None = None
    """On this machine."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """It is as it should be."""
        return self.state in GOOD


class StackReport(_Report):
    """The whole stack. `memory_kind` says what `memory_bytes` counts."""

    runner: RunnerName
    services: tuple[ServiceReport, ...]
    memory_kind: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def memory_bytes(self) -> int:
        """The memory of all services."""
        return sum(service.memory_bytes or 0 for service in self.services)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Something runs, and everything is as it should be."""
        return self.running and all(service.ok for service in self.services)

    @property
    def running(self) -> bool:
        """At least one service is there."""
        return any(service.state != "stopped" for service in self.services)


class Killed(_Report):
    """A service that was killed, and what came back."""

    service: str
    pid: int
    new_pid: int | None
    """None if nobody waited for it."""
    seconds: float


def duration(seconds: float) -> str:
    """Return a duration for a person: `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    whole = int(seconds)
    for unit, smaller, size, part in (("d", "h", 86400, 3600), ("h", "min", 3600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"


def table(stack: StackReport) -> Grid:
    """Return the stack as a table."""
    shown = Grid("service", "state", "port", bordered=False)
    for column in ("memory", "uptime", "restarts"):
        shown.add_column(column, justify="right")
    for service in stack.services:
        colour = _COLOURS.get(service.state, "green")
        shown.add_row(
            service.name,
            Text(service.state, colour),
            " ".join(map(str, service.ports)),
            f"{service.memory_bytes / MIB:,.0f} MiB" if service.memory_bytes else "",
            duration(service.uptime_seconds) if service.uptime_seconds is not None else "",
            str(service.restarts) if service.restarts else "",
        )
    return shown


def details(stack: StackReport) -> list[str]:
    """Return a line for each service of which its row doesn't say all."""
    return [f"{service.name}: {service.detail}" for service in stack.services if service.detail]


def labelled(rows: Iterable[tuple[str, str]]) -> Table:
    """Return rows of a name and what is said of it."""
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(style="bold", max_width=LABEL_WIDTH, overflow="fold")
    shown.add_column(overflow="fold")
    for name, text in rows:
        shown.add_row(name, Text(text))
    return shown
