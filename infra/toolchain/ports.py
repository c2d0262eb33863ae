"""Which ports the stack wants, and who else holds one; read from /proc, without any tool or privilege."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ToolchainError
from .layout import Layout

COMPOSE_ONLY = frozenset({"SPARK_MASTER_PORT", "SPARK_MASTER_UI_PORT", "SPARK_WORKER_UI_PORT"})
NOT_PUBLISHED = frozenset({"KAFKA_INTERNAL_PORT", "KAFKA_CONTROLLER_PORT", "SPARK_MASTER_PORT"})
# Nobody listens on these without PROFILES=observe.
OBSERVED = frozenset(
    {"CONSOLE_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT", "KAFKA_METRICS_PORT", "CONNECT_METRICS_PORT",
     "CATALOG_METRICS_PORT", "POSTGRES_METRICS_PORT"}
)  # fmt: skip
_METRICS = "_METRICS_PORT"
PROJECT = "lakehouse"
_LISTEN = "0A"


@dataclass(frozen=True)
class Taken:
    """A port that something else listens on."""

    port: int
    owner: str


def wanted(values: Mapping[str, str], runner: str) -> dict[str, int]:
    """Return the ports that a runner binds on this machine, by variable; raises `ToolchainError` if one is none."""
    skipped = COMPOSE_ONLY if runner == "process" else NOT_PUBLISHED
    if "observe" not in os.environ.get("PROFILES", ""):
        skipped |= OBSERVED
    texts = {
        name: text.strip("'\"") for name, text in values.items()
        if name.endswith("_PORT") and name not in skipped and not (runner == "compose" and name.endswith(_METRICS))
    }  # fmt: skip
    for name, text in texts.items():
        if not (text.isdigit() and 0 < int(text) < 65536):
            raise ToolchainError(f"{name}={text} is no port", "Give it a number from 1024 to 65535 in .env.")
    return {name: int(text) for name, text in texts.items()}


def shared(ports: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of variables that name the same port."""
    first: dict[int, str] = {}
    return [(first[port], name) for name, port in ports.items() if first.setdefault(port, name) != name]


def taken(layout: Layout, ports: Mapping[str, int], runner: str) -> dict[str, Taken]:
    """Return the ports held by anything but this checkout's own stack, by variable."""
    busy = {name: port for name, port in ports.items() if not _free(port)}
    if not busy:
        return {}
    own = _published_by_us() if runner == "compose" else frozenset()
    holders = _holders(set(busy.values()))
    found: dict[str, Taken] = {}
    for name, port in busy.items():
        holder = holders.get(port)
        ours = port in own if runner == "compose" else holder is not None and _ours(layout, holder)
        if not ours:
            found[name] = Taken(port, describe(holder))
    return found


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def inodes(table: str) -> dict[int, str]:
    """Return the socket inode listening on each port, from the text of /proc/net/tcp or tcp6."""
    found: dict[int, str] = {}
    for line in table.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 9 and columns[3] == _LISTEN:
            found.setdefault(int(columns[1].rpartition(":")[2], 16), columns[9])
    return found


def _holders(ports: set[int]) -> dict[int, int]:
    """Return the process ids that listen on these ports, as far as this user may see."""
    listening: dict[int, str] = {}
    for table in ("/proc/net/tcp6", "/proc/net/tcp"):
        if Path(table).exists():
            listening |= inodes(Path(table).read_text(encoding="ascii"))
    names = {f"socket:[{inode}]": port for port, inode in listening.items() if port in ports}
    found: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                port = names.get(str(descriptor.readlink()))
                if port is not None:
                    found[port] = int(process.name)
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def describe(holder: int | None) -> str:
    """Name a process for a person: `postgres (process 4711)`."""
    if holder is None:
        return "a process of another user"
    try:
        name = Path(f"/proc/{holder}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        name = "a process"
    return f"{name} (process {holder})"


def _ours(layout: Layout, holder: int) -> bool:
    """Say whether a process is of this checkout's stack: every server of ours works somewhere inside the checkout."""
    try:
        return Path(f"/proc/{holder}/cwd").readlink().is_relative_to(layout.root)
    except OSError:
        return False


def _published_by_us() -> frozenset[int]:
    """Return the ports that containers of the project publish."""
    answer = subprocess.run(
        ["docker", "ps", "--filter", f"label=com.docker.compose.project={PROJECT}", "--format", "{{.Ports}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return published(answer.stdout)


def published(listing: str) -> frozenset[int]:
    """Return the host ports in Docker's listing, such as `127.0.0.1:9000->9000/tcp`."""
    entries = listing.replace(",", " ").split()
    hosts = [entry.partition("->")[0].rpartition(":")[2] for entry in entries if "->" in entry]
    return frozenset(int(port) for port in hosts if port.isdigit())
