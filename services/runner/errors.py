"""What can go wrong while running the stack. Every error stops the command, and names the next one to run."""

from __future__ import annotations

from collections.abc import Sequence


class RunnerError(Exception):
    """A stop with a reason. `next_step` is what to do about it; `exit_code` is the command's."""

    exit_code = 2

    def __init__(self, reason: str, next_step: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step

    def explain(self) -> str:
        """Return the message for a person, of one or more lines."""
        return f"{self.reason}\n  next: {self.next_step}" if self.next_step else self.reason


class ComposeFileError(RunnerError):
    """docker-compose.yml (or what it takes from .env) can't be used."""


class ServiceFailedError(RunnerError):
    """A service did not get to where it should. Holds the last lines of its log."""

    exit_code = 1

    def __init__(self, service: str, reason: str, log: str = "", lines: Sequence[str] = ()) -> None:
        super().__init__(f"{service}: {reason}", f"make logs s={service}")
        self.service = service
        self.log = log
        self.lines = tuple(lines)

    def explain(self) -> str:
        """Return reason, last log lines and next step."""
        text = self.reason
        if self.lines:
            text += f"\n  last lines of {self.log}:" + "".join(f"\n    {line}" for line in self.lines)
        elif self.log:
            text += f"\n  {self.log} is empty"
        return f"{text}\n  next: {self.next_step}"


class CancelledError(RunnerError):
    """Broken off because another service failed, or by Ctrl-C."""

    exit_code = 1
