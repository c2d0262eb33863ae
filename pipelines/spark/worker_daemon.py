"""Start Spark's Python workers so that each task costs little (``spark.python.daemon.module``).

Three things cost more than what few records take:

- Before each task Spark has Python forget what it knows of its path, and in Python 3.11 an archive on it is then read
  anew for every package in it. Spark puts three on the path that the environment has anyway: a quarter of a CPU-second.
- After each task everything that was ever imported is searched for garbage: a twelfth of a CPU-second.
- Spark sends a task in small pieces, each of which waits for the one before it to be acknowledged, which the kernel
  does after 40 ms.
"""

import gc
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

ARCHIVES = (".zip", ".jar")
Task = Callable[[Any, Any], None]


def leave_out_archives() -> None:
    """Take archives off this process's path, and that of those that it forks."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(ARCHIVES)]
    sys.path_importer_cache.clear()


def eager(run: Task) -> Task:
    """Return what runs a task of Spark's, and what it sends, as ``run`` does, without waiting and searching."""
    imported = False

    def task(infile: Any, outfile: Any) -> None:
        nonlocal imported
        _acknowledge_at_once(infile.fileno())
        try:
            run(infile, outfile)
        finally:
            if not imported:
                # What the first task has imported stays.
                imported = True
                gc.collect()
                gc.freeze()

    return task


def _acknowledge_at_once(descriptor: int) -> None:
    """Have the kernel acknowledge what comes next on a connection at once, where it can."""
    quickly = getattr(socket, "TCP_QUICKACK", None)
    if quickly is None:
        return
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, quickly, 1)


if __name__ == "__main__":
    leave_out_archives()
    from pyspark import daemon

    daemon.worker_main = eager(daemon.worker_main)
    daemon.manager()  # type: ignore[no-untyped-call]
