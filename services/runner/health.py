"""Runs health checks as Docker does: a program whose exit code 0 means healthy."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.runner.compose_file import Health

OUTPUT_SHOWN = 300
"""Characters of a check's output that are kept."""


@dataclass(frozen=True)
class Checked:
    """The result of one check; `reason` says why not."""

    healthy: bool
    reason: str = ""


def check(health: Health, environment: Mapping[str, str], folder: Path) -> Checked:
    """Run a health check once, in `folder`, with exactly this environment; takes at most its timeout."""
    try:
        answer = subprocess.run(
            health.command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=health.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Checked(False, f"the health check took more than {health.timeout:g} s")
    except OSError as error:
        return Checked(False, f"the health check can't be run: {error.strerror}")
    if answer.returncode == 0:
        return Checked(True)
    said = " ".join((answer.stderr or answer.stdout).split())[:OUTPUT_SHOWN]
    return Checked(False, said or f"the health check ended with {answer.returncode}")
