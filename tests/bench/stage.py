"""The stack that systems are measured on: as `make up` has it, but with no mirror and no verifier at work."""

import json
from functools import cached_property
from pathlib import Path

import psycopg

from services.verify.position import Deadline, wait_until_published
from services.verify.settings import StackSettings
from tests.bench.workloads import CURVE, WORKLOADS
from tests.integration.stack import PYTHON, Stack

PUBLISH_SECONDS = 3600
# The mirror's service does nothing here, but its environment is written, which the mirror that is measured runs in.
ASIDE = {
    "services": {
        "mirror": {"command": ["sleep", "infinity"], "healthcheck": {"test": ["CMD", "true"]}, "depends_on": {}},
        "verifier": {"profiles": ["aside"]},
        "checker": {"profiles": ["aside"]},
        "lineage": {"profiles": ["aside"]},
        "publisher": {"profiles": ["aside"]},
    }
}
OVERLAY = ".lakehouse/bench.yml"


class Stage(Stack):
    """A stack in a folder of its own, on the process runner, with a schema for each workload."""

    server_java_options = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "process", OVERLAY)

    def set_up(self) -> None:
        """Start everything. The schemas are there before capture looks for them."""
        self.prepare()
        (self.folder / OVERLAY).write_text(json.dumps(ASIDE), encoding="utf-8")
        schemas = ",".join(dict.fromkeys(workload.schema for workload in (*WORKLOADS.values(), CURVE)))
        with (self.folder / ".env").open("a", encoding="utf-8") as file:
            file.write(f"CAPTURED_SCHEMAS={schemas}\n")
        self._run([PYTHON, "-m", "services.runner", "up", "shop-setup"], 900)
        with psycopg.connect(self.dsn, autocommit=True) as source:
            for schema in schemas.split(","):
                source.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        self.up()

    @cached_property
    def settings(self) -> StackSettings:
        """Endpoints and credentials of a person outside."""
        return StackSettings.load(self.folder / ".env")

    @property
    def dsn(self) -> str:
        """The shop database, for its owner."""
        return self.settings.source_conninfo.get_secret_value()

    def published(self) -> None:
        """Return once Kafka holds everything that is committed in the source."""
        wait_until_published(self.settings, Deadline(PUBLISH_SECONDS))
