"""The Python environment: one virtual environment, every package from a lock file with hashes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from .commands import run
from .layout import Layout

_ADVICE = (
    "pip could not install everything: check the network (proxies belong into pip's configuration), "
    "then run the same command again: what is done is kept."
)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==")
# Packages that no lock file names: the environment's own, and this project.
_OWN = frozenset({"pip", "lakehouse"})
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


def pip_install(layout: Layout, log: Path, *arguments: str | Path) -> None:
    """Run the environment's pip, made first if need be; raise `CommandFailed` if it can't install."""
    environment(layout, log)
    base: list[str | Path] = [layout.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    run([*base, *arguments], log, attempts=2, advice=_ADVICE)


def install_packages(layout: Layout, log: Path) -> None:
    """Install exactly what requirements.lock names, and take away what no lock file names any more."""
    lock = layout.root / "requirements.lock"
    pip_install(layout, log, "--require-hashes", "--no-deps", "-r", lock)
    known = set(locked(lock.read_text(encoding="utf-8")))
    development = layout.root / "requirements-dev.lock"
    if development.exists():
        known |= set(locked(development.read_text(encoding="utf-8")))
    listing = subprocess.run(
        [layout.python, "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    )
    installed = {canonical(line.partition("==")[0]) for line in listing.stdout.splitlines()}
    strays = sorted(installed - known - _OWN)
    if strays:
        run([layout.python, "-m", "pip", "uninstall", "--yes", *strays], log)


def install_development_packages(layout: Layout, log: Path) -> None:
    """Install what checks and tests need on top."""
    pip_install(layout, log, "--require-hashes", "--no-deps", "-r", layout.root / "requirements-dev.lock")


def install_project(layout: Layout, log: Path) -> None:
    """Install the project itself, in place, so that `lakehouse` is a command."""
    pip_install(layout, log, "--no-deps", "--no-build-isolation", "--editable", layout.root)
