"""Rewrites tables with Iceberg's own procedure, and tells what that cost."""

import json
import os
import time
from pathlib import Path

import psutil

from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session

OPTIONS = "'delete-file-threshold', '1', 'min-input-files', '2', 'remove-dangling-deletes', 'true'"


def main() -> int:
    """Compact what BENCH_TABLES names; BENCH_DONE is written last."""
    spark = start_session(MirrorSettings(), "bench compact")
    spark.sparkContext.setLogLevel("ERROR")
    began, cpu = time.monotonic(), _cpu_seconds()
    for table in json.loads(os.environ["BENCH_TABLES"]):
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map({OPTIONS}))").collect()
    told = {"seconds": time.monotonic() - began, "cpu_seconds": _cpu_seconds() - cpu}
    Path(os.environ["BENCH_DONE"]).write_text(json.dumps(told), encoding="utf-8")
    spark.stop()
    return 0


def _cpu_seconds() -> float:
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(t.user + t.system for t in times)


if __name__ == "__main__":
    leave(main())
