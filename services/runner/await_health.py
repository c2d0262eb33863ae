"""Waits for one service to be where it should, and says clearly why it isn't."""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Event
from typing import NoReturn

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_exponential

from services.runner.checkout import Checkout
from services.runner.compose_file import Service
from services.runner.errors import CancelledError, ServiceFailedError
from services.runner.health import check
from services.runner.launcher import Launcher
from services.runner.supervision import Program, Supervisor
from services.runner.tail import last_lines

POLL = 0.1
"""Seconds between two looks at Supervisor."""
MOST_EXITS = 5
"""A server that ended so often while it was waited for is not going to be healthy."""
ONE_SHOT_PATIENCE = 600.0
"""Seconds for one run of a one-shot."""
BACK_PATIENCE = 90.0
"""Seconds for Supervisor to bring a killed service back."""


class Waiting:
    """Waits for one service. `cancel` ends a wait with `CancelledError`; what goes wrong is `ServiceFailedError`."""

    def __init__(
        self,
        checkout: Checkout,
        supervisor: Supervisor,
        service: Service,
        environment: Mapping[str, str],
        cancel: Event,
    ) -> None:
        self._checkout = checkout
        self._supervisor = supervisor
        self._service = service
        self._environment = environment
        self._cancel = cancel
        self._launcher = Launcher(checkout, service)

    @property
    def _name(self) -> str:
        return self._service.name

    def pause(self, seconds: float = 0.5) -> None:
        """Wait, unless nothing is waited for any more: `CancelledError`."""
        if self._cancel.wait(seconds):
            raise CancelledError(f"{self._name}: no longer waited for")

    def _fail(self, reason: str) -> NoReturn:
        log = self._checkout.log(self._name)
        raise ServiceFailedError(self._name, reason, self._checkout.relative(log), last_lines(log, 15))

    def healthy(self) -> None:
        """Return when the service runs and its health check says yes; at most the check's patience."""
        health = self._service.healthcheck
        began, exits_before = time.monotonic(), self._launcher.starts()
        patience = health.patience if health else BACK_PATIENCE
        while True:
            program = self._supervisor.program(self._name)
            if not program.active:
                self._fail(f"does not run: {program.spawnerr or program.statename.lower()}")
            starts = self._launcher.starts()
            if starts - max(1, exits_before) >= MOST_EXITS:
                self._fail(f"ended {MOST_EXITS} times while it was waited for")
            reason = "is being started again and again"
            if program.pid and health is None and program.statename == "RUNNING":
                return
            if program.pid and health is not None and starts:
                checked = check(health, self._environment, self._checkout.root)
                if checked.healthy and self._supervisor.program(self._name).pid == program.pid:
                    return
                reason = checked.reason or reason
            waited = time.monotonic() - began
            if waited > patience:
                self._fail(f"not healthy after {patience:.0f} s: {reason}")
            if health is None:
                self.pause(POLL)
            else:
                self.pause(health.start_interval if waited < health.start_period else health.interval)

    def complete(self) -> None:
        """Run a one-shot to its end, again with growing pauses if it fails, as often as its `restart` says."""
        attempts = self._service.attempts

        def give_up(state: RetryCallState) -> NoReturn:
            status = state.outcome.result() if state.outcome else "?"
            times = f" ({attempts} times)" if attempts > 1 else ""
            self._fail(f"ended with {status}{times}")

        Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=0.5, max=10),
            retry=retry_if_result(lambda status: status != 0),
            retry_error_callback=give_up,
            sleep=self.pause,
        )(self._once)

    def _once(self) -> int:
        """Run a one-shot once (or see the run that is under way to its end); return its exit code."""
        self._supervisor.start(self._name)
        began = time.monotonic()
        while (program := self._supervisor.program(self._name)).active:
            if time.monotonic() - began > ONE_SHOT_PATIENCE:
                self._supervisor.stop(self._name)
                self._fail(f"did not end within {ONE_SHOT_PATIENCE:.0f} s")
            self.pause(POLL)
        if program.statename != "EXITED":
            self._fail(program.spawnerr or f"is {program.statename.lower()}")
        return program.exitstatus

    def back(self, old_pid: int, starts: int) -> int:
        """Return the process id of a killed service once Supervisor has started it again."""
        began = time.monotonic()
        while time.monotonic() - began < BACK_PATIENCE:
            program: Program = self._supervisor.program(self._name)
            if program.pid and program.pid != old_pid and self._launcher.starts() > starts:
                return program.pid
            self.pause(POLL)
        self._fail(f"did not come back within {BACK_PATIENCE:.0f} s")
