"""What Docker answers, which runner is chosen, and how reports read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from services.runner import choose
from services.runner.docker import containers, instant, size
from services.runner.report import ServiceReport, StackReport, duration

LINE = (
    '{"ID":"1","Service":"kafka","State":"running","Health":"healthy","ExitCode":0,'
    '"Publishers":[{"URL":"127.0.0.1","TargetPort":9092,"PublishedPort":9092},{"TargetPort":1,"PublishedPort":0}]}'
)
BARE = '{"ID":"2","Service":"setup","State":"exited","Health":"","ExitCode":7,"Publishers":null}'


@pytest.mark.parametrize("text", [f"{LINE}\n{BARE}\n", f"[{LINE},{BARE}]"], ids=["a line each", "array"])
def test_containers(text: str) -> None:
    kafka, setup = containers(text)
    assert (kafka.service, kafka.state, kafka.health, kafka.ports) == ("kafka", "running", "healthy", (9092,))
    assert (setup.state, setup.exit_code, setup.ports) == ("exited", 7, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.5GiB / 2GiB", 1610612736), ("300MiB / 1GiB", 314572800), ("12kB / 1GB", 12000), ("0B / 0B", 0), ("--", 0)],
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected


def test_instants() -> None:
    assert instant("2026-11-21T12:00:01.123456789Z") == datetime(2026, 11, 21, 12, 0, 1, 123456, UTC)
    assert instant("0001-01-01T00:00:00Z").year == 1


@pytest.mark.parametrize(
    ("asked", "remembered", "machine", "expected"),
    [
        pytest.param(None, None, "compose", "compose", id="the machine's"),
        pytest.param("", None, "process", "process", id="empty is not asked"),
        pytest.param(None, "process", "compose", "process", id="the one that has the state"),
        pytest.param("compose", "process", "process", "compose", id="the one asked for"),
        pytest.param(None, "nonsense", "process", "process", id="unreadable memory"),
    ],
)
def test_choosing(
    asked: str | None,
    remembered: str | None,
    machine: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.runner.choose.preflight.choose", lambda: machine)
    if remembered:
        choose.remember(tmp_path / "run" / "runner", remembered)
    assert choose.choose(asked, tmp_path / "run" / "runner") == expected


def test_a_runner_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="compose and process"):
        choose.choose("kubernetes", tmp_path / "runner")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (90000, "1 d 1 h")],
)
def test_how_long(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("states", "ok"),
    [
        (["healthy", "completed", "running"], True),
        (["healthy", "stopped"], False),
        (["healthy", "starting"], False),
        (["stopped"], False),
        ([], False),
    ],
)
def test_a_stack_is_ok_when_all_is(states: list[str], ok: bool) -> None:
    services = tuple(ServiceReport.model_validate({"name": "a", "state": state, "memory_bytes": 5}) for state in states)
    stack = StackReport(runner="process", services=services, memory_kind="")
    assert stack.ok is ok
    assert stack.memory_bytes == 5 * len(states)
