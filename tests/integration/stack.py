"""A whole stack of its own, with its own ports, secrets and state, driven through the outside face: make and lakehouse."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = ("Makefile", "docker-compose.yml", "infra", "services", "pipelines", "quality", "lineage", "pyproject.toml")
PORTS = (
    "SOURCE_DB", "METADATA_DB", "OBJECT_STORE", "KAFKA", "KAFKA_INTERNAL", "KAFKA_CONTROLLER", "SCHEMA_REGISTRY",
    "CONNECT", "CATALOG", "SPARK_UI", "SPARK_MASTER", "SPARK_MASTER_UI", "SPARK_WORKER_UI",
)  # fmt: skip
WAIT_SECONDS = 180


class Stack:
    """The stack of one folder, which looks like a checkout: the code and the toolchain are links to this one's."""

    def __init__(self, folder: Path, runner: str) -> None:
        self.folder, self.runner = folder, runner

    def prepare(self) -> None:
        """Make the folder, with ports that are free now."""
        for name in SHARED + ("requirements.in", "requirements.lock", "requirements-dev.lock"):
            (self.folder / name).symlink_to(CHECKOUT / name)
        (self.folder / ".lakehouse").mkdir()
        (self.folder / ".lakehouse/toolchain").symlink_to(CHECKOUT / ".lakehouse/toolchain")
        with ExitStack() as open_sockets:
            ports = {name: _free_port(open_sockets) for name in PORTS}
        (self.folder / ".env").write_text("".join(f"{name}_PORT={port}\n" for name, port in ports.items()))
        (self.folder / ".env").chmod(0o600)

    def make(self, *arguments: str, timeout: float = 600) -> str:
        """Run a make target; its output, or an AssertionError with it."""
        return self._run(["make", "--no-print-directory", *arguments, f"RUNNER={self.runner}"], timeout)

    def lakehouse(self, *arguments: str, ok: tuple[int, ...] = (0,), timeout: float = 300) -> Any:
        """Run a `lakehouse` command with --json; what it printed, parsed."""
        script = str(CHECKOUT / ".lakehouse/toolchain/venv/bin/lakehouse")
        return json.loads(self._run([script, *arguments, "--json"], timeout, ok))

    @property
    def endpoints(self) -> dict[str, str]:
        """What `lakehouse env` says."""
        return dict(self.lakehouse("env"))

    @contextmanager
    def source(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection to the shop database, each statement a transaction."""
        with psycopg.connect(self.endpoints["source_dsn"], autocommit=True) as connection:
            yield connection

    def sql(self, *statements: str) -> None:
        """Run statements in the source, each in a transaction of its own."""
        with self.source() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def assert_equal(self, *tables: str) -> Any:
        """The lake equals the source: everything committed is visible, and `verify` finds no difference."""
        self.lakehouse("wait", "--timeout", str(WAIT_SECONDS))
        report = self.lakehouse("verify", *tables, ok=(0, 1))
        assert report["equal"], json.dumps(report, indent=1)[:4000]
        return report

    def positions(self) -> int:
        """How many records the mirror has behind it, by the consumer group that shows its position."""
        return sum(int(row["mirrored"]) for row in self.lakehouse("table", "list")["tables"])

    @contextmanager
    def workload(self, rate: int = 20, seed: int = 7) -> Iterator[None]:
        """Live transactions against the shop while the block runs; stopped by SIGTERM, and it must end well."""
        command = [sys.executable, "-m", "services.shop", "run", "--rate", str(rate), "--duration", "900",
                   "--connections", "2", "--seed", str(seed), "--json"]  # fmt: skip
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, text=True)
        try:
            yield
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output

    def _run(self, command: list[str], timeout: float, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode in ok, f"{' '.join(command)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder), "COLUMNS": "200"}


def wait_until(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return once ``condition`` holds; tenacity.RetryError when it doesn't in time."""
    retry(stop=stop_after_delay(seconds), wait=wait_fixed(0.5), retry=retry_if_result(lambda held: not held))(condition)()


def _free_port(sockets: ExitStack) -> int:
    listener = sockets.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    return int(listener.getsockname()[1])
