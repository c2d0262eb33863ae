"""A tiny stack a test, run by each runner in turn; its services note what happens to them in the file `events`."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.toolchain.preflight import engine_problem
from services.runner.checkout import Checkout
from services.runner.compose import ComposeRunner
from services.runner.process import ProcessRunner
from services.runner.protocol import Runner

IMAGE = "debian:bookworm-slim"
HEALTH = {"interval": "1s", "timeout": "5s", "retries": 5, "start_period": "5s", "start_interval": "100ms"}


def server(name: str, after: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A service that is healthy a moment after it starts, until it ends."""
    script = (
        f'rm -f "{name}.up"; echo "{name} starts" >>events; trap "echo {name} stops >>events; exit 0" TERM; '
        f'echo $$ >"{name}.up"; echo "{name} is up"; while :; do sleep 0.1; done'
    )
    return {
        "command": ["bash", "-c", script.replace("$", "$$")],
        "restart": "unless-stopped",
        # What it left when it was up before says nothing.
        "healthcheck": {**HEALTH, "test": ["CMD", "bash", "-c", f'kill -0 "$$(cat {name}.up)"']},
        "depends_on": {other: {"condition": condition} for other, condition in (after or {}).items()},
        **more,
    }


def one_shot(script: str, after: dict[str, str] | None = None, restart: str = "on-failure:3") -> dict[str, Any]:
    return {
        "command": ["bash", "-c", script.replace("$", "$$")],
        "restart": restart,
        "depends_on": {other: {"condition": condition} for other, condition in (after or {}).items()},
    }


@dataclass
class Tiny:
    """A checkout with a tiny stack, and the runner under test."""

    checkout: Checkout
    make: Callable[[Checkout, Console], Runner]
    shown: io.StringIO = field(default_factory=io.StringIO)

    def write(self, services: dict[str, dict[str, Any]]) -> None:
        for service in services.values():
            service.update(
                {"image": IMAGE, "init": True, "volumes": [f"{self.checkout.root}:/work"], "working_dir": "/work"}
            )
            service.setdefault("stop_grace_period", "5s")
        # The project's name is the folder's, so that tests never share containers.
        document = {"name": f"lakehouse-test-{self.checkout.root.name}", "services": services}
        self.checkout.compose_file.write_text(json.dumps(document), encoding="utf-8")

    @property
    def runner(self) -> Runner:
        """A new object each time, as each command has one."""
        return self.make(self.checkout, Console(file=self.shown, width=200))

    def events(self) -> list[str]:
        try:
            return (self.checkout.root / "events").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def states(self) -> dict[str, str]:
        return {service.name: service.state for service in self.runner.status().services}

    def pids(self) -> dict[str, int | None]:
        return {service.name: service.pid for service in self.runner.status().services}


def _process(checkout: Checkout, console: Console) -> Runner:
    return ProcessRunner(checkout, console)


def _compose(checkout: Checkout, console: Console) -> Runner:
    return ComposeRunner(checkout, console)


@pytest.fixture(
    params=[
        pytest.param(_process, id="process", marks=pytest.mark.process),
        pytest.param(_compose, id="compose", marks=pytest.mark.compose),
    ]
)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tiny]:
    if request.param is _compose:
        _need_engine()
    yield from _tiny(request.param, tmp_path)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Tiny]:
    """The process runner, for what only it does."""
    yield from _tiny(_process, tmp_path)


def _tiny(make: Callable[[Checkout, Console], Runner], tmp_path: Path) -> Iterator[Tiny]:
    root = tmp_path / f"c{abs(hash(tmp_path)) % 10**8}"
    root.mkdir()
    (root / ".env").write_text("", encoding="utf-8")
    tiny = Tiny(Checkout(root), make)
    yield tiny
    if tiny.checkout.compose_file.exists():
        tiny.runner.clean()
    shutil.rmtree(root)


def _need_engine() -> None:
    problem = engine_problem()
    if problem:
        pytest.skip(problem)
    if subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the engine has no {IMAGE}")
