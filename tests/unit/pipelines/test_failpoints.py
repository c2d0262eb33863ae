"""Failpoints are off unless armed, fire once, and are armed by their names only."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest

from pipelines import failpoints
from pipelines.errors import RetryBatch
from pipelines.failpoints import FAILPOINTS, Name, arm, disarm, failpoint, fired
from tests.integration.stack import wait_until

DIES = """
import sys
from pathlib import Path
from pipelines.failpoints import failpoint, look_in
failpoint("before-merge")
look_in(Path(sys.argv[1]))
failpoint("before-merge")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(failpoints, "_folder", tmp_path / "failpoints")
    return tmp_path / "failpoints"


def test_every_name_is_explained() -> None:
    assert tuple(FAILPOINTS) == get_args(Name)


def test_what_is_not_armed_passes(folder: Path) -> None:
    failpoint("before-merge")
    arm(folder, "after-merge", "error")
    failpoint("before-merge")
    disarm(folder, "after-merge")
    failpoint("after-merge")
    assert not fired(folder, "after-merge")


def test_an_error_is_raised_once(folder: Path) -> None:
    arm(folder, "before-merge", "error")
    with pytest.raises(RetryBatch, match="before-merge"):
        failpoint("before-merge")
    failpoint("before-merge")
    assert fired(folder, "before-merge")


def test_a_process_dies_once(folder: Path) -> None:
    arm(folder, "before-merge")
    ends = [subprocess.run([sys.executable, "-c", DIES, str(folder)], check=False).returncode for _ in range(2)]
    assert ends == [-signal.SIGKILL, 0]


def test_a_pause_ends_when_it_is_disarmed(folder: Path) -> None:
    arm(folder, "before-merge", "pause")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(failpoint, "before-merge")
        wait_until(lambda: fired(folder, "before-merge"), 30)
        assert not waiting.done()
        disarm(folder, "before-merge")
        waiting.result(30)


@pytest.mark.parametrize(("name", "action", "near"), [
    ("before-mergw", "kill", "did you mean before-merge"), ("before-merge", "kil", "did you mean kill"),
    ("?", "kill", "There are: before-batch"),
])  # fmt: skip
def test_a_wrong_name_is_told_the_nearest(folder: Path, name: str, action: str, near: str) -> None:
    with pytest.raises(failpoints.UnknownFailpoint, match=near):
        arm(folder, name, action)
    assert not folder.exists()
