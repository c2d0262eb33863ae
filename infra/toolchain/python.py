"""The Python environment: making it, and the excerpts of lock files that it is filled from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from .commands import run
from .folders import scratch
from .layout import Layout

_ADVICE = (
    "pip could not fetch it: check the network (proxies and mirrors belong into pip's configuration), "
    "then run the same command again: what is done is kept."
)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==")
_making_environment = threading.Lock()


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, str]:
    """Return the blocks of a lock file (requirement, hashes and comments) by canonical package name."""
    blocks: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        match = _REQUIREMENT.match(line)
        if match:
            name = canonical(match[1])
            blocks[name] = ""
        if name:
            blocks[name] += line
    return blocks


def excerpt(text: str, names: Iterable[str]) -> str:
    """Return the part of a lock file that names these packages; raises KeyError if one is not there."""
    blocks = locked(text)
    return "".join(blocks[canonical(name)] for name in names)


def environment(layout: Layout, log: Path) -> None:
    """Make the virtual environment if it is not there or belongs to another interpreter or place."""
    with _making_environment:
        if _usable(layout):
            return
        shutil.rmtree(layout.venv, ignore_errors=True)
        run(
            [sys.executable, "-m", "venv", layout.venv],
            log,
            advice="Python can't make virtual environments: on Debian, install python3-venv.",
        )


def _usable(layout: Layout) -> bool:
    """Say whether the environment runs this very version of Python, from this very place, and has pip."""
    script = "import pip, sys; print(sys.version, sys.prefix, sys.base_prefix, sep='\\n', end='')"
    try:
        answer = subprocess.run([layout.python, "-c", script], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.stdout == f"{sys.version}\n{layout.venv}\n{sys.base_prefix}"


def locked_tool(layout: Layout, tool: str) -> str:
    """Return the part of tools.lock that is about a program."""
    return excerpt((layout.sources / "tools.lock").read_text(encoding="utf-8"), [tool])


def pip_install(layout: Layout, log: Path, requirements: str, *options: str | Path) -> None:
    """Install a few packages, given as lines of a lock file, with the environment's pip, made first if need be.

    For what comes before uv. Raises `CommandFailed` if pip can't.
    """
    environment(layout, log)
    command: list[str | Path] = [layout.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    with scratch(layout.toolchain) as folder:
        lock = folder / "part.lock"
        lock.write_text(requirements, encoding="utf-8")
        hashed: list[str | Path] = ["--require-hashes", "--no-deps", "-r", lock]
        run([*command, *options, *hashed], log, attempts=2, advice=_ADVICE)
