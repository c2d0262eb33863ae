"""Compaction as Iceberg brings it, by Spark: what a table's owner would run to keep scans cheap."""

import json
import subprocess
from pathlib import Path

from tests.bench.lake import Identifier
from tests.bench.results import Compaction
from tests.bench.systems.base import Job, inherited
from tests.integration.stack import CHECKOUT, PYTHON


class CompactionFailed(Exception):
    """With the end of what it said."""


def compact(job: Job, tables: dict[str, Identifier], folder: Path, seconds: float) -> Compaction:
    """Compact these tables once. The start of Spark isn't counted. Raises CompactionFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done.json"
    done.unlink(missing_ok=True)
    own = {"STATE_DIR": str(folder), "SPARK_UI_PORT": "0", "CAPTURED_SCHEMAS": job.workload.schema,
           "BENCH_TABLES": json.dumps([".".join(identifier) for identifier in tables.values()]),
           "BENCH_DONE": str(done)}  # fmt: skip
    said = subprocess.run(
        [PYTHON, "-m", "tests.bench.jobs.compact"], cwd=CHECKOUT, env=inherited(job) | own, capture_output=True,
        text=True, timeout=seconds, check=False,
    )  # fmt: skip
    if not done.exists():
        raise CompactionFailed(said.stderr[-1500:])
    return Compaction(**json.loads(done.read_text(encoding="utf-8")))
