"""This project's mirror."""

import shutil

from pyiceberg.catalog import Catalog

from tests.bench.lake import drop
from tests.bench.systems.base import Job, Launch, System, inherited
from tests.bench.workloads import Workload
from tests.integration.stack import PYTHON


class Lakehouse(System):
    """`pipelines.mirror` with the settings that `make up` gives it, for the workload's schema."""

    name, title = "lakehouse", "this project's mirror"
    guarantees = (
        "Inserts, updates, deletes, truncates and key changes, exactly once across crashes (offsets in the same "
        "commit); order by Kafka offset; values missing from the log kept; dead letters; schema changes followed."
    )
    settings = "as `make up` has it: merge-on-read, a batch every half second or as soon as the last one ends"

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
        own = {"STATE_DIR": str(job.folder), "SPARK_UI_PORT": "0", "CAPTURED_SCHEMAS": job.workload.schema,
               "LAKEHOUSE_SERVICE": "bench"}  # fmt: skip
        return Launch((PYTHON, "-m", "pipelines.mirror"), inherited(job) | own, job.stage.folder)
