"""Where the runner keeps things: one frozen object that knows every path of a checkout."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from services.runner.errors import RunnerError

SOCKET_PATH_LIMIT = 90
"""Bytes. Linux allows 107 (unix(7)); Supervisor binds a name some bytes longer first."""


@dataclass(frozen=True)
class Checkout:
    """Paths below `root`, an absolute path."""

    root: Path

    @classmethod
    def this(cls) -> Checkout:
        """Return the checkout that this file belongs to."""
        return cls(Path(__file__).resolve().parents[2])

    @property
    def compose_file(self) -> Path:
        """The description of the stack."""
        return self.root / "docker-compose.yml"

    @property
    def env_file(self) -> Path:
        """Settings and secrets."""
        return self.root / ".env"

    @property
    def state(self) -> Path:
        """Everything that is not in version control."""
        return self.root / ".lakehouse"

    @property
    def toolchain(self) -> Path:
        """What was installed."""
        return self.state / "toolchain"

    @property
    def data(self) -> Path:
        """State of the services, a folder each (process runner)."""
        return self.state / "data"

    @property
    def logs(self) -> Path:
        """Logs of the services (process runner)."""
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """What belongs to the running stack: configuration, process ids, the runner's name."""
        return self.state / "run"

    @property
    def launchers(self) -> Path:
        """A launcher a service; they hold secrets."""
        return self.run / "services"

    @property
    def runner_file(self) -> Path:
        """Holds the name of the runner that has this checkout's state."""
        return self.run / "runner"

    @property
    def observe_file(self) -> Path:
        """Is there while servers are to tell their metrics."""
        return self.run / "observe"

    def log(self, service: str) -> Path:
        """Return the log of a service."""
        return self.logs / f"{service}.log"

    def relative(self, path: Path) -> str:
        """Return a path as a person in the checkout would type it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    @property
    def socket(self) -> Path:
        """Supervisor's socket; in a short folder of this user's own where the checkout's path is too long for one."""
        usual = self.run / "supervisor.sock"
        if len(os.fsencode(usual)) <= SOCKET_PATH_LIMIT:
            return usual
        key = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        return base / f"lakehouse-{os.getuid()}-{key}" / "supervisor.sock"

    def make_folders(self) -> None:
        """Create what the process runner writes to; raise `RunnerError` if the socket's folder is somebody else's."""
        for folder in (self.data, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True)
        self.launchers.mkdir(mode=0o700, exist_ok=True)
        private = self.socket.parent
        if private != self.run:
            private.mkdir(mode=0o700, exist_ok=True)
            owner = private.lstat()
            if owner.st_uid != os.getuid() or owner.st_mode & 0o077 or private.is_symlink():
                raise RunnerError(f"{private} must be a folder that only you can enter", "remove it and run `make up`")

    @contextmanager
    def exclusive(self, what: str) -> Iterator[None]:
        """Hold the checkout for one changing command at a time; raise `RunnerError` if another one holds it."""
        self.run.mkdir(parents=True, exist_ok=True)
        with (self.run / "lock").open("a+", encoding="utf-8") as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                raise RunnerError(f"another command works on the stack: {lock.read()}", "wait for it to end") from error
            lock.truncate(0)
            lock.write(f"{what} (process {os.getpid()})")
            lock.flush()
            yield


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    fresh.replace(path)
