"""Systems that are Spark jobs of the benchmark's own, in tests/bench/jobs."""

import json

from tests.bench.systems.base import Job, Launch, System, inherited
from tests.integration.stack import PYTHON


class SparkJob(System):
    """A job that is told its tables in a file."""

    module: str

    def launch(self, job: Job) -> Launch:
        described = {
            table: {"topic": job.topics.name(table), "schema": job.topics.value_schema(table), "key": list(key)}
            for table, key in job.workload.keys.items()
        }
        path = job.folder / "job.json"
        path.write_text(json.dumps({"namespace": self.namespace(job.workload), "tables": described}), encoding="utf-8")
        own = {"STATE_DIR": str(job.folder), "SPARK_UI_PORT": "0", "CAPTURED_SCHEMAS": job.workload.schema,
               "BENCH_JOB": str(path)}  # fmt: skip
        return Launch((PYTHON, "-m", f"tests.bench.jobs.{self.module}"), inherited(job) | own)


class Append(SparkJob):
    """The floor: decode and append, nothing else."""

    name, title, module = "append", "plain append with Spark", "append"
    guarantees = "Every event once (Iceberg's streaming sink). No current state: who reads finds a key's newest event."
    settings = "one streaming query a table, reader schema, a batch every half second, at most 200,000 records each"
    append_only = True


class Tutorial(SparkJob):
    """What most tutorials do."""

    name, title, module = "tutorial", "the tutorials' way with Spark", "tutorial"
    guarantees = (
        "Inserts, updates and deletes; at least once, made harmless by MERGE. Of changes with the same millisecond any "
        "may win; values missing from the log are overwritten by the placeholder."
    )
    settings = "row_number by ts_ms in a window, copy-on-write MERGE, 10 s trigger, 4 shuffle partitions"
