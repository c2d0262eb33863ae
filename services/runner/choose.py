"""Which runner runs this checkout's stack. `python3 -m services.runner.choose` prints it, without any package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.toolchain import preflight

RUNNERS = preflight.RUNNERS


def remembered(runner_file: Path) -> str | None:
    """Return the runner that holds the checkout's state, as `remember` has left it."""
    try:
        name = runner_file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    return name if name in RUNNERS else None


def remember(runner_file: Path, runner: str) -> None:
    """Note the runner that holds the checkout's state; `make clean` forgets it."""
    runner_file.parent.mkdir(parents=True, exist_ok=True)
    runner_file.write_text(f"{runner}\n", encoding="ascii")


def choose(asked: str | None, runner_file: Path) -> str:
    """Return the runner asked for (`RUNNER=`), else the one that holds the state, else what the machine can do.

    The second comes before the third, so that a Docker engine that appears (or vanishes) does not make
    the state seem lost.
    Raises `ValueError` for a runner that there isn't.
    """
    if asked and asked not in RUNNERS:
        raise ValueError(f"RUNNER={asked}: there is {' and '.join(RUNNERS)}")
    return asked or remembered(runner_file) or preflight.choose()


if __name__ == "__main__":
    try:
        print(choose(os.environ.get("RUNNER"), Path(__file__).resolve().parents[2] / ".lakehouse" / "run" / "runner"))
    except ValueError as error:
        sys.exit(f"runner: {error}")
