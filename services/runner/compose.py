"""The compose runner: the same verbs over `docker compose`, with the same messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property

from rich.console import Console

from services.runner import compose_file
from services.runner.checkout import Checkout
from services.runner.compose_file import Service, Stack
from services.runner.docker import Container, Docker, containers
from services.runner.errors import RunnerError, ServiceFailedError
from services.runner.progress import Progress, progress
from services.runner.report import GOOD, Killed, RunnerName, ServiceReport, StackReport, State

POLL = 0.5
BACK_PATIENCE = 90.0
"""Seconds for the engine to start a killed container again."""
DEFAULT_PATIENCE = 600.0


class ComposeRunner:
    """Runs the services of one checkout in containers."""

    name: RunnerName = "compose"

    def __init__(self, checkout: Checkout, console: Console, pause: Callable[[float], None] = time.sleep) -> None:
        self._checkout = checkout
        self._console = console
        self._pause = pause
        files = compose_file.paths(checkout.compose_file, compose_file.settings(checkout.env_file))
        options = (
            "--project-directory",
            str(checkout.root),
            *(part for file in files for part in ("--file", str(file))),
        )
        self._docker = Docker(checkout.root, options)

    @cached_property
    def _stack(self) -> Stack:
        values = compose_file.settings(self._checkout.env_file)
        return compose_file.parse(compose_file.read(compose_file.paths(self._checkout.compose_file, values)), values)

    def _containers(self) -> dict[str, Container]:
        listing = self._docker.compose("--profile", "*", "ps", "--all", "--format", "json")
        return {it.service: it for it in containers(listing) if it.service in self._stack.services}

    def is_running(self) -> bool:
        """Say whether a container of the project runs."""
        return any(it.state in ("running", "restarting") for it in self._containers().values())

    def up(self, services: Sequence[str] = (), profiles: Sequence[str] = ()) -> list[str]:
        """See `Runner.up`. Images that are not there or out of date are built first.

        Not `up --wait`: with that, several versions of Compose take a one-shot that has ended for a failure.
        """
        for name in services:
            self._stack.check_name(name)
        self._stack.check_profiles(profiles)
        chosen = [part for profile in profiles for part in ("--profile", profile)]
        status = self._docker.show(*chosen, "up", "--detach", "--build", "--remove-orphans", *services)
        found = self._containers()
        if status != 0:
            bad = next((name for name, it in found.items() if self._state(name, it) in ("unhealthy", "failed")), None)
            if bad is not None:
                self._fail(bad, found[bad])
            raise RunnerError(f"docker compose up ended with {status}", "read its messages above; make status")
        names = self._selection(services, profiles)
        with progress(self._console, names) as shown:
            self._wait(names, shown)
        return names

    def _selection(self, services: Sequence[str], profiles: Sequence[str]) -> list[str]:
        """Return what `up` starts: unlike in the process runner, nothing is skipped."""
        every = {
            name: service.model_copy(update={"process": compose_file.ProcessSettings()})
            for name, service in self._stack.services.items()
        }
        return self._stack.model_copy(update={"services": every}).selection(services, profiles)

    def _wait(self, names: Sequence[str], shown: Progress) -> None:
        """Return when all are as they should be."""
        began = time.monotonic()
        told: dict[str, State] = {}
        while True:
            found = self._containers()
            for name in names:
                state: State = self._state(name, found[name]) if name in found else "stopped"
                if told.get(name) != state:
                    shown.update(name, state, done=state in GOOD)
                    told[name] = state
                if state in ("unhealthy", "failed"):
                    self._fail(name, found[name])
                if state not in GOOD and time.monotonic() - began > self._patience(self._stack.services[name]):
                    raise ServiceFailedError(name, f"is {state} after {time.monotonic() - began:.0f} s")
            if all(told[name] in GOOD for name in names):
                return
            self._pause(POLL)

    @staticmethod
    def _patience(service: Service) -> float:
        return service.healthcheck.patience if service.healthcheck else DEFAULT_PATIENCE

    def _fail(self, name: str, container: Container) -> None:
        lines = self._docker.run("logs", "--tail", "15", container.id).splitlines()
        state = self._state(name, container)
        reason = f"ended with {container.exit_code}" if state == "failed" else f"is {state}"
        raise ServiceFailedError(name, reason, "its log", lines)

    def _state(self, name: str, container: Container) -> State:
        keeps_running = self._stack.services[name].keeps_running
        ended: State = "stopped" if keeps_running else "completed" if container.exit_code == 0 else "failed"
        states: dict[str, State] = {
            "created": "starting",
            "restarting": "starting",
            "exited": ended,
            "running": "running" if keeps_running else "starting",
        }
        of_health: dict[str, State] = {"healthy": "healthy", "unhealthy": "unhealthy", "starting": "starting"}
        if container.state == "running" and container.health in of_health:
            return of_health[container.health]
        return states.get(container.state, "failed")

    def down(self) -> None:
        """See `Runner.down`. Volumes are kept."""
        self._checked("down", "--remove-orphans")

    def clean(self) -> None:
        """See `Runner.clean`."""
        self._checked("down", "--volumes", "--remove-orphans")

    def _checked(self, *arguments: str) -> None:
        status = self._docker.show("--profile", "*", *arguments)
        if status != 0:
            raise RunnerError(f"docker compose {arguments[0]} ended with {status}", "read its messages above")

    def kill(self, service: str, wait: bool = True) -> Killed:
        """See `Runner.kill`.

        From inside the container: `docker kill` counts as stopped by hand, and is not followed by a restart; and the
        process id that the engine names may be another machine's. With `init`, the end of its child ends process 1.
        """
        self._stack.check_name(service)
        container = self._containers().get(service)
        if container is None or container.state != "running":
            raise RunnerError(f"{service} does not run", "make status")
        before = self._docker.inspect([container.id])[container.id]
        began = time.monotonic()
        try:
            self._docker.run("exec", container.id, "/bin/sh", "-c", "kill -9 -1")
        except RunnerError:
            # The container may be gone before the engine has the exit code of the shell.
            if self._docker.inspect([container.id])[container.id].started_at == before.started_at and not wait:
                raise
        new = self._back(service, container.id, before.started_at) if wait else None
        return Killed(service=service, pid=before.pid, new_pid=new, seconds=time.monotonic() - began)

    def _back(self, service: str, container: str, before: datetime) -> int:
        """Return the new process id once the service is started again, and as it should be."""
        began = time.monotonic()
        patience = BACK_PATIENCE + self._patience(self._stack.services[service])
        while time.monotonic() - began < patience:
            now = self._docker.inspect([container])[container]
            # In this order: looked at before the restart, the health is still that of the killed one.
            if now.started_at > before and now.pid and self._state(service, self._containers()[service]) in GOOD:
                return now.pid
            self._pause(POLL)
        raise ServiceFailedError(service, f"did not come back within {patience:.0f} s")

    def kept(self, service: str, file: str) -> str | None:
        """See `Runner.kept`."""
        container, folder = self._containers().get(service), self._stack.services[service].environment.get("STATE_DIR")
        if container is None or container.state != "running" or folder is None:
            return None
        try:
            return self._docker.run("exec", container.id, "cat", f"{folder}/{file}")
        except RunnerError:
            return None

    def run(self, service: str, command: Sequence[str]) -> int:
        """See `Runner.run`."""
        self._stack.check_name(service)
        container = self._containers().get(service)
        if container is None or container.state != "running":
            raise RunnerError(f"{service} does not run", "make status")
        return self._docker.show("--profile", "*", "exec", "--no-TTY", service, *command)

    def status(self) -> StackReport:
        """See `Runner.status`."""
        found = self._containers()
        shown = [it for it in self._stack.services.values() if it.name in found or not it.profiles]
        inspected = self._docker.inspect([it.id for it in found.values()])
        memory = self._docker.memory([it.id for it in found.values() if it.state == "running"])
        reports = []
        for service in shown:
            container = found.get(service.name)
            if container is None:
                reports.append(ServiceReport(name=service.name, state="stopped"))
                continue
            known, runs = inspected[container.id], container.state == "running"
            reports.append(
                ServiceReport(
                    name=service.name,
                    state=self._state(service.name, container),
                    detail=f"ended with {container.exit_code}" if container.exit_code and not runs else "",
                    ports=container.ports,
                    memory_bytes=memory.get(container.id[:12]),
                    uptime_seconds=(datetime.now(UTC) - known.started_at).total_seconds() if runs else None,
                    restarts=known.restarts,
                    pid=known.pid or None,
                )
            )
        return StackReport(runner="compose", services=tuple(reports), memory_kind="cgroup, without file cache")

    def logs(self, service: str | None = None, follow: bool = False, lines: int = 100) -> int:
        """See `Runner.logs`."""
        if service is not None:
            self._stack.check_name(service)
        options = ["--tail", str(lines), *(["--follow"] if follow else [])]
        return self._docker.show("--profile", "*", "logs", *options, *([service] if service else []))
