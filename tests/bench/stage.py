"""The stack that systems are measured on: as `make up` has it, but with no mirror and no verifier at work, and with a
proxy that counts what a system reads from the object store.
"""

import json
from functools import cached_property
from pathlib import Path

import psycopg

from tests.bench.meter import Meter
from tests.bench.workloads import CURVE, WORKLOADS
from tests.integration.stack import PYTHON, Stack

METER = ".lakehouse/meter.json"
# The mirror's service does nothing here, but its environment is written, which the mirror that is measured runs in.
ASIDE = {
    "services": {
        "mirror": {
            "command": ["sleep", "infinity"], "healthcheck": {"test": ["CMD", "true"]},
            "depends_on": {"meter": {"condition": "service_healthy"}},
            "environment": {"S3_ENDPOINT": "http://meter:${FAULTS_OBJECT_STORE_PORT}"},
        },
        "meter": {
            "command": [".lakehouse/toolchain/bin/toxiproxy", "-host", "127.0.0.1", "-port", "${FAULTS_PORT}",
                        "-proxy-metrics", "-config", METER],
            "environment": {"PORT": "${FAULTS_PORT}"},
            "restart": "unless-stopped",
            "ports": ["127.0.0.1:${FAULTS_PORT}:${FAULTS_PORT}"],
            "healthcheck": {"test": ["CMD", "infra/faults/health"], "interval": "1s", "start_period": "60s"},
        },
        "verifier": {"profiles": ["aside"]},
        "checker": {"profiles": ["aside"]},
        "lineage": {"profiles": ["aside"]},
        "publisher": {"profiles": ["aside"]},
    }
}  # fmt: skip
OVERLAY = ".lakehouse/bench.yml"


class Stage(Stack):
    """A stack in a folder of its own, on the process runner, with a schema for each workload."""

    server_java_options = ""
    publish_seconds = 3600

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "process", OVERLAY)

    def set_up(self) -> None:
        """Start everything. The schemas are there before capture looks for them."""
        self.prepare()
        (self.folder / OVERLAY).write_text(json.dumps(ASIDE), encoding="utf-8")
        store = {"name": "s3", "listen": f"127.0.0.1:{self.setting('FAULTS_OBJECT_STORE_PORT')}",
                 "upstream": f"127.0.0.1:{self.setting('OBJECT_STORE_PORT')}"}  # fmt: skip
        (self.folder / METER).write_text(json.dumps([store]), encoding="utf-8")
        schemas = ",".join(dict.fromkeys(workload.schema for workload in (*WORKLOADS.values(), CURVE)))
        with (self.folder / ".env").open("a", encoding="utf-8") as file:
            file.write(f"CAPTURED_SCHEMAS={schemas}\n")
        self._run([PYTHON, "-m", "services.runner", "up", "shop-setup"], 900)
        with psycopg.connect(self.dsn, autocommit=True) as source:
            for schema in schemas.split(","):
                source.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        self.up()

    @cached_property
    def meter(self) -> Meter:
        """What counts the bytes between the systems and the object store."""
        return Meter(int(self.setting("FAULTS_PORT")), int(self.setting("FAULTS_OBJECT_STORE_PORT")))

    @property
    def dsn(self) -> str:
        """The shop database, for its owner."""
        return self.settings.source_conninfo.get_secret_value()
