"""Start Spark's Python workers without archives on their path (``spark.python.daemon.module``).

Before each task Spark has Python forget what it knows of its path, and in Python 3.11 an archive on it is then read
anew for every package in it. Spark puts three on the path that the environment has anyway: a quarter of a CPU-second a
task.
"""

import sys

ARCHIVES = (".zip", ".jar")


def leave_out_archives() -> None:
    """Take archives off this process's path, and that of those that it forks."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(ARCHIVES)]
    sys.path_importer_cache.clear()


if __name__ == "__main__":
    leave_out_archives()
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
