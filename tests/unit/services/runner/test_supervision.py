"""What Supervisor's answer to a start means. Which one comes is a race that a real one can't be made to lose."""

from __future__ import annotations

import xmlrpc.client
from pathlib import Path

import pytest
from supervisor.xmlrpc import Faults

from services.runner.checkout import Checkout
from services.runner.errors import RunnerError
from services.runner.supervision import Supervisor


def _start(root: Path, monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
    def call(_: Supervisor, method: str, name: str, wait: bool) -> None:
        assert (method, wait) == ("startProcess", False)
        raise xmlrpc.client.Fault(fault, f"FAULT: {name}")

    monkeypatch.setattr(Supervisor, "_call", call)
    Supervisor(Checkout(root)).start("setup")


@pytest.mark.parametrize("fault", [Faults.ALREADY_STARTED, Faults.SPAWN_ERROR])
def test_a_process_that_runs_or_has_ended_already_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    _start(tmp_path, monkeypatch, fault)


def test_a_process_that_could_not_be_started_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunnerError, match="setup: Supervisor says FAULT: setup"):
        _start(tmp_path, monkeypatch, Faults.NO_FILE)
