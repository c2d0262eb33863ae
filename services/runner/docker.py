"""Calls Docker, and reads its answers into models."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from services.runner.errors import RunnerError

_UNITS = {"B": 1, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Publisher(_Answer):
    """A port of a container; `port` is 0 if the machine has none for it."""

    port: int = Field(default=0, alias="PublishedPort")


class Container(_Answer):
    """A line of `docker compose ps`. `health` is empty without a health check."""

    id: str = Field(alias="ID")
    service: str = Field(alias="Service")
    state: str = Field(alias="State")
    health: str = Field(default="", alias="Health")
    exit_code: int = Field(default=0, alias="ExitCode")
    publishers: tuple[Publisher, ...] | None = Field(default=None, alias="Publishers")

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that it has on the machine."""
        return tuple(sorted({it.port for it in self.publishers or () if it.port}))


class Inspected(_Answer):
    """What `docker inspect` says of a container; `pid` is 0 while it does not run."""

    id: str
    pid: int
    started_at: datetime
    restarts: int


def containers(text: str) -> list[Container]:
    """Return the containers in the output of `ps --format json`: an array (up to Compose 2.20), or an object a line."""
    documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    flat = [item for document in documents for item in (document if isinstance(document, list) else [document])]
    return [Container.model_validate(item) for item in flat]


def size(text: str) -> int:
    """Return the bytes of Docker's `123.4MiB / 1GiB` (what is used comes first)."""
    match = re.match(r"([\d.]+)\s*([A-Za-z]+)", text)
    return int(float(match[1]) * _UNITS.get(match[2].upper(), 0)) if match else 0


def instant(text: str) -> datetime:
    """Return Docker's time, whose fraction of a second has nine digits."""
    return datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text).replace("Z", "+00:00"))


def _objects(text: str) -> Iterator[dict[str, str]]:
    yield from (json.loads(line) for line in text.splitlines() if line.strip())


class Docker:
    """The `docker` command in one folder."""

    def __init__(self, folder: Path, project: Sequence[str]) -> None:
        self._folder = folder
        self._compose = ("docker", "compose", *project)

    def run(self, *arguments: str) -> str:
        """Return what a command prints; raises `RunnerError` with what it says on standard error."""
        return self._run(("docker", *arguments))

    def compose(self, *arguments: str) -> str:
        """Return what a compose command prints; raises `RunnerError`."""
        return self._run((*self._compose, *arguments))

    def show(self, *arguments: str) -> int:
        """Run a compose command that talks to the person itself; return its exit code."""
        try:
            return subprocess.run((*self._compose, *arguments), cwd=self._folder, check=False).returncode
        except FileNotFoundError as error:
            raise RunnerError("there is no Docker here", "install it, or use RUNNER=process") from error

    def _run(self, command: Sequence[str]) -> str:
        try:
            answer = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise RunnerError("there is no Docker here", "install it, or use RUNNER=process") from error
        if answer.returncode != 0:
            said = answer.stderr.strip().splitlines() or ["no reason given"]
            raise RunnerError(f"`{' '.join(command[:4])} …` failed: {said[-1]}", "docker info; make status")
        return answer.stdout

    def inspect(self, ids: Sequence[str]) -> dict[str, Inspected]:
        """Return what is known of containers, by id as given."""
        if not ids:
            return {}
        found = json.loads(self.run("inspect", *ids))
        return {
            given: Inspected(
                id=it["Id"],
                pid=it["State"]["Pid"],
                started_at=instant(it["State"]["StartedAt"]),
                restarts=it["RestartCount"],
            )
            for given, it in zip(ids, found, strict=True)
        }

    def memory(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the bytes of memory of running containers, by (short) id."""
        if not ids:
            return {}
        lines = _objects(self.run("stats", "--no-stream", "--format", "json", *ids))
        return {line["ID"][:12]: size(line["MemUsage"]) for line in lines}
