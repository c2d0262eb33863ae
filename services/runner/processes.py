"""Process trees: how much memory they take, what is left over, and killing them."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress

import psutil

from services.runner.checkout import Checkout
from services.runner.launcher import MARK, mark


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it; nothing if it has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory(pid: int) -> int:
    """Return the bytes of memory of a process and all below it, shared pages counted by their share (PSS).

    Where the kernel doesn't say (another user's process), RSS, which counts shared pages in full.
    """
    return sum(map(_memory, tree(pid)))


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0
    except psutil.AccessDenied:
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def holder(port: int) -> str | None:
    """Name the process that listens on a TCP port, as `java (process 4711)`; None if nobody does."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.NoSuchProcess:
                continue
    return None


def kill(pid: int) -> None:
    """Send SIGKILL to a process, its group and all below it, at once, as the end of a container does."""
    victims = tree(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for process in victims:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def leftovers(checkout: Checkout, names: Collection[str], known: Collection[int] = ()) -> Iterator[psutil.Process]:
    """Yield processes of these services that no Supervisor looks after: `known` and all below them are looked after.

    They are there after Supervisor itself was killed, and hold ports and locks on state.
    """
    kept = {process.pid for pid in known for process in tree(pid)}
    marks = {mark(checkout, name) for name in names}
    for process in psutil.process_iter():
        try:
            if process.pid not in kept and process.environ().get(MARK) in marks and process.pid != os.getpid():
                yield process
        except psutil.Error:  # ended meanwhile, or another user's
            continue


def end(processes: Collection[psutil.Process], grace: float) -> None:
    """Ask processes to end, wait `grace` seconds at most, and kill what is left."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=grace)
    for process in alive:
        kill(process.pid)
    psutil.wait_procs(alive, timeout=grace)
