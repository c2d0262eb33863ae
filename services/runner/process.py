"""The process runner: services as supervised processes on loopback, from the same docker-compose.yml."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Event

from rich.console import Console

from services.runner import compose_file, loopback, processes
from services.runner.await_health import Waiting
from services.runner.checkout import Checkout
from services.runner.compose_file import Service, Stack
from services.runner.errors import ComposeFileError, RunnerError
from services.runner.health import check
from services.runner.installing import Installed, Installing
from services.runner.launcher import Launcher
from services.runner.order import in_order, reversed_order
from services.runner.progress import Progress, progress
from services.runner.report import Killed, RunnerName, ServiceReport, StackReport, State
from services.runner.supervision import Program, Supervisor
from services.runner.tail import tail

LEFTOVER_GRACE = 30.0
"""Seconds for processes that a killed Supervisor left behind."""


class ProcessRunner:
    """Runs the services of one checkout. `environment` is what `make up` was called with."""

    name: RunnerName = "process"

    def __init__(
        self,
        checkout: Checkout,
        console: Console,
        environment: Mapping[str, str] | None = None,
        installing: Installing | None = None,
    ) -> None:
        self._checkout = checkout
        self._installing = installing or Installed()
        self._console = console
        self._environment = loopback.inherited(environment or os.environ, checkout.toolchain)
        self._supervisor = Supervisor(checkout)

    @cached_property
    def _stack(self) -> Stack:
        values = compose_file.settings(self._checkout.env_file)
        raw = compose_file.read(compose_file.paths(self._checkout.compose_file, values))
        return compose_file.parse(loopback.on_loopback(raw, self._checkout.data), values)

    @property
    def _services(self) -> list[Service]:
        return [service for service in self._stack.services.values() if not service.process.skip]

    def _after(self, names: Sequence[str]) -> dict[str, list[str]]:
        return {name: list(self._stack.dependencies(name)) for name in names}

    def is_running(self) -> bool:
        """Say whether Supervisor or a service that it left behind runs."""
        return self._supervisor.alive() or any(processes.leftovers(self._checkout, self._recorded()))

    def _recorded(self) -> list[str]:
        """Return every service that was ever launched here, whatever the compose file holds by now."""
        return [script.stem for script in self._checkout.launchers.glob("*.sh")]

    def up(self, services: Sequence[str] = (), profiles: Sequence[str] = ()) -> list[str]:
        """See `Runner.up`."""
        names = self._stack.selection(services, profiles)
        for name in names:
            Launcher(self._checkout, self._stack.services[name]).check()
        self._checkout.make_folders()
        programs = self._supervisor.programs()
        left = list(
            processes.leftovers(self._checkout, self._recorded(), [it.pid for it in programs.values() if it.pid])
        )
        processes.end(left, LEFTOVER_GRACE)
        for name in names:
            if name not in programs or not programs[name].active:
                self._check_ports(self._stack.services[name])
        self._supervisor.ensure(self._services, self._environment)
        cancel = Event()
        with progress(self._console, names) as shown:
            in_order(self._after(names), lambda name: self._bring_up(name, cancel, shown), cancel)
        return names

    def _waiting(self, name: str, cancel: Event) -> Waiting:
        service = self._stack.services[name]
        return Waiting(self._checkout, self._supervisor, service, self._of(service), cancel)

    def _of(self, service: Service) -> dict[str, str]:
        return {**self._environment, **service.environment}

    def _bring_up(self, name: str, cancel: Event, shown: Progress) -> None:
        service = self._stack.services[name]
        launcher = Launcher(self._checkout, service)
        waiting = self._waiting(name, cancel)
        self._installing.wait_for(service, waiting.pause, lambda what: shown.update(name, what))
        began = time.monotonic()
        active = self._supervisor.program(name).active
        if active and launcher.changed():
            shown.update(name, "stopping, its definition changed")
            self._stop(name)
            active = False
        if not active:
            launcher.write()
            if "STATE_DIR" in service.environment:
                Path(service.environment["STATE_DIR"]).mkdir(parents=True, exist_ok=True)
        if not service.keeps_running:
            shown.update(name, "working")
            waiting.complete()
            shown.update(name, f"completed in {time.monotonic() - began:.1f} s", done=True)
            return
        if not active:
            shown.update(name, "starting")
            self._supervisor.start(name)
        waiting.healthy()
        state = "healthy" if service.healthcheck else "running"
        took = "already" if active else f"after {time.monotonic() - began:.1f} s"
        shown.update(name, f"{state} {took}", done=True)

    @staticmethod
    def _check_ports(service: Service) -> None:
        """Raise `RunnerError` if somebody else has a port of the service: its health check would ask them."""
        for port in service.host_ports:
            holder = processes.holder(port)
            if holder is not None:
                raise RunnerError(
                    f"{service.name}: port {port} is in use by {holder}, which this runner did not start",
                    "stop that, or choose another port in .env",
                )

    def _stop(self, name: str) -> None:
        """Stop a service, and whatever it leaves of its process tree, as the end of a container does."""
        pid = self._supervisor.program(name).pid
        members = processes.tree(pid) if pid else []
        self._supervisor.stop(name)
        processes.end(members, 0.0)

    def down(self) -> None:
        """See `Runner.down`."""
        programs = self._supervisor.programs()
        active = [name for name, program in programs.items() if program.active]
        if active:
            with progress(self._console, active) as shown:

                def stop(name: str) -> None:
                    shown.update(name, "stopping")
                    self._stop(name)
                    shown.update(name, "stopped", done=True)

                in_order(reversed_order(self._known_order(active)), stop, Event())
        self._supervisor.shutdown()
        processes.end(list(processes.leftovers(self._checkout, self._recorded())), LEFTOVER_GRACE)

    def _known_order(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the order of services as far as the compose file (still) tells: what runs can always be stopped."""
        try:
            services = self._stack.services
        except ComposeFileError:
            return {name: [] for name in names}
        known = {name for name in names if name in services and not services[name].process.skip}
        # With what is needed through others: of those, one-shots have ended.
        return {name: [*{*self._stack.selection([name])} - {name}] if name in known else [] for name in names}

    def clean(self) -> None:
        """See `Runner.clean`."""
        self.down()
        for folder in (self._checkout.data, self._checkout.logs, self._checkout.run):
            if folder.exists():
                shutil.rmtree(folder)

    def kill(self, service: str, wait: bool = True) -> Killed:
        """See `Runner.kill`."""
        self._stack.check_name(service)
        program = self._supervisor.programs().get(service)
        if program is None or not program.pid:
            raise RunnerError(f"{service} does not run", "make status")
        launcher = Launcher(self._checkout, self._stack.services[service])
        starts, began = launcher.starts(), time.monotonic()
        processes.kill(program.pid)
        new = None
        if wait:
            waiting = self._waiting(service, Event())
            new = waiting.back(program.pid, starts)
            waiting.healthy()
        return Killed(service=service, pid=program.pid, new_pid=new, seconds=time.monotonic() - began)

    def kept(self, service: str, file: str) -> str | None:
        """See `Runner.kept`."""
        try:
            return (self._checkout.data / service / file).read_text(encoding="utf-8")
        except OSError:
            return None

    def run(self, service: str, command: Sequence[str]) -> int:
        """See `Runner.run`."""
        self._stack.check_name(service)
        if service not in self._supervisor.programs() or not self._supervisor.program(service).pid:
            raise RunnerError(f"{service} does not run", "make status")
        environment = self._of(self._stack.services[service])
        try:
            return subprocess.run(command, cwd=self._checkout.root, env=environment, check=False).returncode
        except OSError as error:
            raise RunnerError(f"{command[0]} can't be run: {error.strerror}", "make up") from error

    def status(self) -> StackReport:
        """See `Runner.status`."""
        programs = self._supervisor.programs()
        # Of a profile only what was started since the last `make down`: nobody has asked for the rest.
        shown = [it for it in self._services if not it.profiles or (it.name in programs and programs[it.name].start)]
        with ThreadPoolExecutor(max_workers=max(1, len(shown))) as pool:
            reports = list(pool.map(lambda service: self._report(service, programs.get(service.name)), shown))
        return StackReport(runner="process", services=tuple(reports), memory_kind="PSS: shared pages counted once")

    def _was_launched(self, service: Service) -> bool:
        return Launcher(self._checkout, service).script.exists()

    def _report(self, service: Service, program: Program | None) -> ServiceReport:
        state, detail = self._state(service, program)
        if program is None or not program.pid:
            return ServiceReport(name=service.name, state=state, detail=detail, ports=service.host_ports)
        return ServiceReport(
            name=service.name,
            state=state,
            detail=detail,
            ports=service.host_ports,
            memory_bytes=processes.memory(program.pid),
            uptime_seconds=max(0.0, time.time() - program.start),
            restarts=max(0, Launcher(self._checkout, service).starts() - 1),
            pid=program.pid,
        )

    def _state(self, service: Service, program: Program | None) -> tuple[State, str]:
        if program is None or program.statename in ("STOPPED", "STOPPING") or not self._was_launched(service):
            return "stopped", ""
        if not service.keeps_running:
            return self._one_shot_state(program)
        if not program.pid or not program.active:
            return ("starting" if program.active else "failed"), program.spawnerr or f"is {program.statename.lower()}"
        if service.healthcheck is None:
            return "running", ""
        checked = check(service.healthcheck, self._of(service), self._checkout.root)
        young = time.time() - program.start < service.healthcheck.start_period
        return ("healthy" if checked.healthy else "starting" if young else "unhealthy"), checked.reason

    @staticmethod
    def _one_shot_state(program: Program) -> tuple[State, str]:
        if program.active:
            return "starting", "working"
        if program.statename != "EXITED":
            return "failed", program.spawnerr
        return ("failed", f"ended with {program.exitstatus}") if program.exitstatus else ("completed", "")

    def logs(self, service: str | None = None, follow: bool = False, lines: int = 100) -> int:
        """See `Runner.logs`."""
        names = [it.name for it in self._services if self._checkout.log(it.name).exists()]
        if service is not None:
            self._stack.check_name(service)
            if service not in names:
                raise RunnerError(f"{service} has no log: it was never started here", "make up")
            names = [service]
        return tail([self._checkout.log(name) for name in names], follow, lines)
