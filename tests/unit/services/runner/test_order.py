"""Side by side, in order."""

from __future__ import annotations

from threading import Barrier, Event, Lock

import pytest

from services.runner.errors import CancelledError, ComposeFileError, RunnerError
from services.runner.order import in_order, reversed_order


def test_each_after_those_it_comes_after() -> None:
    done: list[str] = []
    in_order({"c": ["a", "b"], "a": [], "b": ["a"], "d": ["elsewhere"]}, done.append, Event())
    assert sorted(done) == ["a", "b", "c", "d"]
    assert done.index("a") < done.index("b") < done.index("c")


def test_side_by_side() -> None:
    together = Barrier(3, timeout=10)
    in_order({"a": [], "b": [], "c": []}, lambda _: together.wait() and None, Event())


def test_the_first_failure_cancels_the_rest_and_is_the_one_raised() -> None:
    cancel, began, lock = Event(), [], Lock()
    waiting = Event()

    def action(name: str) -> None:
        with lock:
            began.append(name)
        if name == "bad":
            waiting.wait(10)
            raise RunnerError("bad")
        waiting.set()
        if cancel.wait(10):
            raise CancelledError("cancelled")

    with pytest.raises(RunnerError, match="bad"):
        in_order({"bad": [], "slow": [], "after": ["bad"]}, action, cancel)
    assert sorted(began) == ["bad", "slow"]


def test_a_circle_is_named() -> None:
    with pytest.raises(ComposeFileError, match="wait for each other"):
        in_order({"a": ["b"], "b": ["a"]}, lambda _: None, Event())


def test_the_opposite_order() -> None:
    assert reversed_order({"a": [], "b": ["a"], "c": ["a", "b"]}) == {"a": ["b", "c"], "b": ["c"], "c": []}


def test_nothing_to_do() -> None:
    in_order({}, lambda _: None, Event())
