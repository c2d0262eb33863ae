"""Can this machine run the stack? Found out before anything is downloaded; each problem comes with what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from . import environment, java, ports
from .layout import ARCHITECTURES, Layout

RUNNERS = ("compose", "process")
GIB = 1024**3
MEMORY_NEEDED = 7.5
"""GiB the machine must have: the stack at work takes up to 8 GB, less what is shared."""
DISK_TO_INSTALL = 8.0
"""GiB free for a first install: toolchain, package caches, and room for data."""
DISK_TO_RUN = 2.0
JAVA = (17, 21)
PYTHON = (3, 11)


@dataclass(frozen=True)
class Problem:
    """Why the stack can't run here, and what to do about it."""

    what: str
    do: str


@dataclass(frozen=True)
class Facts:
    """What was found out about the machine. None: not there, or not to be found out."""

    runner: str
    system: str
    architecture: str
    memory: float
    """GiB, of the machine or of the control group, whichever is less."""
    disk: float
    """GiB free where the checkout lies."""
    installed: bool
    python: tuple[int, int]
    venv: bool
    java: int | None
    maven: bool
    engine: str | None
    """Why Docker can't be used; None if it can."""
    taken: Mapping[str, ports.Taken] = field(default_factory=dict)
    """Ports that something else listens on, by variable."""
    shared: Sequence[tuple[str, str]] = ()
    """Pairs of variables that name the same port."""


def judge(facts: Facts) -> list[Problem]:
    """Return what keeps the stack from running with these facts; only what the runner needs counts."""
    problems: list[Problem] = []
    if facts.runner == "compose":
        if facts.engine is not None:
            problems.append(
                Problem(facts.engine, "Start Docker with Compose v2, or run without it: make up RUNNER=process")
            )
    else:
        problems += _process_problems(facts)
    if facts.memory < MEMORY_NEEDED:
        problems.append(
            Problem(
                f"{facts.memory:.1f} GiB of memory; the stack needs {MEMORY_NEEDED:g}",
                "Use a machine (or raise a container's or virtual machine's limit to one) with 8 GB.",
            )
        )
    disk = DISK_TO_RUN if facts.installed else DISK_TO_INSTALL
    if facts.disk < disk:
        problems.append(
            Problem(f"{facts.disk:.1f} GiB of disk free; {disk:g} are needed", "Free some, or move the checkout.")
        )
    for first, second in facts.shared:
        problems.append(Problem(f"{first} and {second} are the same port", f"Change one of them in {_ENV}."))
    for variable, taken in facts.taken.items():
        problems.append(
            Problem(
                f"port {taken.port} ({variable}) is in use by {taken.owner}",
                f"Stop that, or set {variable} to another port in {_ENV}.",
            )
        )
    return problems


_ENV = ".env (`python3 -m infra.toolchain env` writes it)"


def _process_problems(facts: Facts) -> list[Problem]:
    problems: list[Problem] = []
    if facts.system != "linux" or facts.architecture not in ARCHITECTURES.values():
        problems.append(
            Problem(
                f"{facts.system} on {facts.architecture}; without Docker the stack runs on Linux, x86-64 or arm64",
                "Install Docker with Compose v2 and run: make up RUNNER=compose",
            )
        )
    if facts.python < PYTHON:
        found = ".".join(map(str, facts.python))
        problems.append(Problem(f"Python {found}; 3.11 or newer is needed", "Install Python 3.11 or newer."))
    if not facts.venv:
        problems.append(Problem("Python can't make virtual environments", "On Debian: apt-get install python3-venv"))
    if facts.java not in JAVA:
        found = "no Java" if facts.java is None else f"Java {facts.java}"
        problems.append(
            Problem(
                f"{found}; a JDK 17 or 21 is needed",
                "On Debian: apt-get install openjdk-17-jre-headless; or point JAVA_HOME at one.",
            )
        )
    if not facts.maven and not facts.installed:
        problems.append(Problem("no Maven", "On Debian: apt-get install maven"))
    return problems


def engine_problem() -> str | None:
    """Return why Docker can't be used, in a few words; None if an engine with Compose v2 answers."""
    if shutil.which("docker") is None:
        return "there is no Docker here"
    checks = (
        (["docker", "compose", "version", "--short"], "Docker has no Compose v2"),
        (["docker", "info", "--format", "{{.ServerVersion}}"], "no Docker engine answers"),
    )
    for command, problem in checks:
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        except subprocess.TimeoutExpired:
            return problem
        if answer.returncode != 0 or not re.match(r"v?(?:[2-9]|\d{2,})\.", answer.stdout.strip()):
            return problem
    return None


def choose(asked: str = "auto") -> str:
    """Return the runner to use: the one asked for, else compose where an engine answers, else process."""
    if asked != "auto":
        return asked
    return "process" if engine_problem() else "compose"


def memory(meminfo: str, limits: Sequence[str] = ()) -> float:
    """Return GiB of memory from the text of /proc/meminfo and control group limits (bytes, or `max`)."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    amounts = [int(match[1]) * 1024] if match else []
    amounts += [int(limit) for limit in limits if limit.strip().isdigit()]
    return min(amounts, default=0) / GIB


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def gather(layout: Layout, runner: str) -> Facts:
    """Look at the machine; takes a second, changes nothing."""
    values = environment.defaults()
    if layout.env_file.exists():
        values |= environment.assigned(layout.env_file.read_text(encoding="utf-8"))
    wanted = ports.wanted(values, runner)
    limits = [_read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    linux = sys.platform.startswith("linux")
    return Facts(
        runner=runner,
        system="linux" if linux else sys.platform,
        architecture=layout.architecture,
        memory=memory(_read("/proc/meminfo"), limits) if linux else float("inf"),
        disk=shutil.disk_usage(layout.root).free / GIB,
        installed=(layout.toolchain / "stamps" / "object-store").exists(),
        python=sys.version_info[:2],
        venv=_can_make_venv(),
        java=java.version() if runner == "process" else None,
        maven=shutil.which("mvn") is not None,
        engine=engine_problem() if runner == "compose" else None,
        taken=ports.taken(layout, wanted, runner),
        shared=ports.shared(wanted),
    )


def _can_make_venv() -> bool:
    from importlib.util import find_spec

    return find_spec("venv") is not None and find_spec("ensurepip") is not None


def report(layout: Layout, runner: str, out: TextIO) -> int:
    """Print the verdict on this machine; return 0 if the stack can run, 2 if it can't."""
    problems = judge(gather(layout, runner))
    reason = "Docker" if runner == "compose" else "no Docker engine in use"
    if not problems:
        print(f"preflight: all there for the {runner} runner ({reason})", file=out)
        return 0
    print(f"preflight: this machine can't run the stack with the {runner} runner yet:", file=out)
    for problem in problems:
        print(f"  ✗ {problem.what}\n    {problem.do}", file=out)
    return 2
