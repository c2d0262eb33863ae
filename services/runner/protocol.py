"""What every runner of the stack can do. One behaviour suite holds for all of them: tests/runner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from services.runner.report import Killed, RunnerName, StackReport


class Runner(Protocol):
    """Runs the services of docker-compose.yml. Every method raises `RunnerError`."""

    @property
    def name(self) -> RunnerName:
        """Its name in `RUNNER=`."""

    def is_running(self) -> bool:
        """Say whether anything of the stack runs here."""

    def up(self, services: Sequence[str] = (), profiles: Sequence[str] = ()) -> list[str]:
        """Start services (all, if none is named) and what they need; return their names once all are healthy.

        A service that runs as it is defined is left alone; one that is defined otherwise now is restarted.
        """

    def down(self) -> None:
        """Stop everything, dependents first, each with its grace period. State is kept."""

    def clean(self) -> None:
        """Stop everything and delete state and logs."""

    def kill(self, service: str, wait: bool = True) -> Killed:
        """End a service with SIGKILL, all its processes at once; with `wait`, return when it is healthy again."""

    def status(self) -> StackReport:
        """Look at every service now."""

    def kept(self, service: str, file: str) -> str | None:
        """Return the text of a small file that a running service keeps in its state; None if it has none."""

    def run(self, service: str, command: Sequence[str]) -> int:
        """Run a command beside a running service, with its environment; return the exit code. Its output is shown."""

    def logs(self, service: str | None = None, follow: bool = False, lines: int = 100) -> int:
        """Print the last lines of a service's log, or of all; return the exit code."""
