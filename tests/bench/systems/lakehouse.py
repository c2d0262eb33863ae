"""This project's mirror."""

import re
import shutil

from pyiceberg.catalog import Catalog

from tests.bench.lake import drop
from tests.bench.systems.base import Job, Launch, System, inherited
from tests.bench.workloads import Workload
from tests.integration.stack import PYTHON

FRESHNESS = re.compile(r"^freshness_seconds: .*$", re.MULTILINE)


class Lakehouse(System):
    """`pipelines.mirror.__main__` with the settings that `make up` gives it, for the workload's schema."""

    name, title = "lakehouse", "this project's mirror"
    keeps_tables = True
    freshness = 10
    guarantees = (
        "Inserts, updates, deletes, truncates and key changes, exactly once across crashes (offsets in the same "
        "commit); order by Kafka offset; values missing from the log kept; dead letters; schema changes followed."
    )
    settings = "as `make up` has it: merge-on-read, a freshness of 10 s, tables rewritten in between"

    def namespace(self, workload: Workload) -> str:
        return "shop" if workload.schema == "public" else f"shop_{workload.schema}"

    def clean(self, job: Job, catalog: Catalog) -> None:
        drop(catalog, [self.namespace(job.workload), "lakehouse"])
        # A mirror that is known by its identity needn't wait for the lease of the one before.
        job.folder.mkdir(parents=True, exist_ok=True)
        for path in job.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "identity":
                path.unlink()

    def launch(self, job: Job) -> Launch:
        defaults = job.stage.folder / "pipelines/specs/defaults.yaml"
        said, changed = FRESHNESS.subn(f"freshness_seconds: {self.freshness}", defaults.read_text(encoding="utf-8"))
        assert changed == 1, f"no freshness_seconds in {defaults}"
        defaults.write_text(said, encoding="utf-8")
        own = {"STATE_DIR": str(job.folder), "SPARK_UI_PORT": "0", "CAPTURED_SCHEMAS": job.workload.schema,
               "LAKEHOUSE_SERVICE": "bench"}  # fmt: skip
        return Launch((PYTHON, "-m", "pipelines.mirror.__main__"), inherited(job) | own, job.stage.folder)


class FreshLakehouse(Lakehouse):
    """The same, asked to be fresher."""

    name, title = "lakehouse-2s", "this project's mirror, fresher"
    settings = "as `make up` has it, but for a freshness of 2 s"
    freshness = 2


class PatientLakehouse(Lakehouse):
    """The same, asked for less."""

    name, title = "lakehouse-30s", "this project's mirror, less fresh"
    settings = "as `make up` has it, but for a freshness of 30 s"
    freshness = 30
