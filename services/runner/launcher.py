"""How a service is launched without a container: a private script that sets its environment and becomes its command.

The script is what keeps secrets out of Supervisor's configuration and of every process's arguments. It is also the
record of how a running service was defined: a definition that renders to another script is a changed one.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from services.runner.checkout import Checkout, write_private
from services.runner.compose_file import Service
from services.runner.errors import ComposeFileError

MARK = "LAKEHOUSE_SERVICE"
"""Environment variable that tells our processes from all others: `<checkout>:<service>`."""


def mark(checkout: Checkout, name: str) -> str:
    """Return what `MARK` holds in the processes of a service."""
    return f"{checkout.root}:{name}"


class Launcher:
    """The launcher of one service, and the record of its starts."""

    def __init__(self, checkout: Checkout, service: Service) -> None:
        self._checkout = checkout
        self._service = service
        self.script = checkout.launchers / f"{service.name}.sh"
        self._starts = checkout.launchers / f"{service.name}.starts"

    def check(self) -> None:
        """Raise `ComposeFileError` if a program that the service has in the checkout is not there or can't be run."""
        health = self._service.healthcheck
        for command in (self._service.command, health.command if health else ()):
            program = command[0] if command else ""
            path = self._checkout.root / program
            if "/" in program and not path.is_file():
                raise ComposeFileError(f"{self._service.name}: {program} does not exist", "check docker-compose.yml")
            if "/" in program and not path.stat().st_mode & 0o111:
                raise ComposeFileError(f"{self._service.name}: {program} can't be run", f"chmod +x {program}")

    def render(self) -> str:
        """Return the script. Works with the checkout as working directory."""
        # What the process before it said of its health is not this one's.
        forget = ['rm -f "$STATE_DIR/alive"'] if "STATE_DIR" in self._service.environment else []
        lines = [
            f"# Written by services/runner; definition {self._digest()}. Holds secrets.",
            "unset SUPERVISOR_ENABLED SUPERVISOR_SERVER_URL SUPERVISOR_PROCESS_NAME SUPERVISOR_GROUP_NAME",
            *(f"export {name}={shlex.quote(value)}" for name, value in sorted(self._service.environment.items())),
            f"export {MARK}={shlex.quote(mark(self._checkout, self._service.name))}",
            *forget,
            f"echo $$ >>{shlex.quote(str(self._starts))}",
            f"exec {shlex.join(self._service.command)}",
        ]
        return "\n".join(lines) + "\n"

    def changed(self) -> bool:
        """Say whether the service is defined otherwise than when it was launched."""
        return not self.script.exists() or self.script.read_text(encoding="utf-8") != self.render()

    def write(self) -> None:
        """Write the script, and forget earlier starts."""
        write_private(self.script, self.render())
        self._starts.unlink(missing_ok=True)

    def starts(self) -> int:
        """Return how often it was started since it was launched; each time but the first, it was brought back."""
        try:
            return len(self._starts.read_text(encoding="ascii").splitlines())
        except FileNotFoundError:
            return 0

    def _digest(self) -> str:
        """Digest what an image of the service would hold of its own.

        That is the files beside its command, and those that it is said to read.
        """
        digest = hashlib.sha256()
        read = (path for folder in self._service.process.reads for path in (self._checkout.root / folder).rglob("*"))
        for path in (*self._own_files(self._service.command), *sorted(path for path in read if path.is_file())):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        digest.update(f"{self._service.stop_signal} {self._service.stop_grace_period}".encode())
        return digest.hexdigest()[:16]

    def _own_files(self, command: Sequence[str]) -> Iterator[Path]:
        folder = (self._checkout.root / command[0]).parent
        inside = folder.is_relative_to(self._checkout.root) and folder != self._checkout.root
        if "/" in command[0] and inside and not folder.is_relative_to(self._checkout.state):
            yield from sorted(path for path in folder.iterdir() if path.is_file())
