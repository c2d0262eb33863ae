"""The stack that systems are measured on: as `make up` has it, but with no mirror and no verifier at work, and with a
proxy that counts what a system reads from the object store.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from tests.bench.meter import TOXIPROXY, Meter
from tests.bench.workloads import CURVE, WORKLOADS
from tests.integration.stack import CHECKOUT, PYTHON, Stack

ASIDE = ("verifier", "checker", "lineage", "publisher")
OVERLAY, METER = ".lakehouse/bench.yml", ".lakehouse/meter.json"


class Stage(Stack):
    """A stack in a folder of its own, on the process runner, with a schema for each workload."""

    server_java_options = ""
    publish_seconds = 3600

    def __init__(self, folder: Path) -> None:
        assert (CHECKOUT / TOXIPROXY).exists(), f"no {TOXIPROXY}: run `python3 -m infra.toolchain install faults`"
        super().__init__(folder, "process", OVERLAY)

    def set_up(self) -> None:
        """Start everything. The schemas are there before capture looks for them."""
        self.prepare()
        configured = self.meter.configured(int(self.setting("OBJECT_STORE_PORT")))
        (self.folder / METER).write_text(configured, encoding="utf-8")
        (self.folder / OVERLAY).write_text(json.dumps(self._overlay()), encoding="utf-8")
        schemas = ",".join(dict.fromkeys(workload.schema for workload in (*WORKLOADS.values(), CURVE)))
        with (self.folder / ".env").open("a", encoding="utf-8") as file:
            file.write(f"CAPTURED_SCHEMAS={schemas}\n")
        self._run([PYTHON, "-m", "services.runner", "up", "shop-setup"], 900)
        with psycopg.connect(self.dsn, autocommit=True) as source:
            for schema in schemas.split(","):
                source.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
        self.up()

    def _overlay(self) -> dict[str, Any]:
        control = self.meter.control
        # It does nothing here, but its environment is written, which the mirror that is measured runs in.
        mirror = {
            "command": ["sleep", "infinity"], "healthcheck": {"test": ["CMD", "true"]},
            "depends_on": {"meter": {"condition": "service_healthy"}},
            "environment": {"S3_ENDPOINT": f"http://meter:{self.meter.port}"},
        }  # fmt: skip
        meter = {
            "command": self.meter.command(METER), "restart": "unless-stopped", "environment": {"PORT": control},
            "ports": [f"127.0.0.1:{control}:{control}"],
            "healthcheck": {"test": ["CMD", "infra/faults/health"], "interval": "1s", "start_period": "60s"},
        }  # fmt: skip
        aside = {name: {"profiles": ["aside"]} for name in ASIDE}
        return {"services": {"mirror": mirror, "meter": meter, **aside}}

    @cached_property
    def meter(self) -> Meter:
        """What counts the bytes between the systems and the object store."""
        return Meter(int(self.setting("FAULTS_PORT")), int(self.setting("FAULTS_OBJECT_STORE_PORT")))

    @property
    def dsn(self) -> str:
        """The shop database, for its owner."""
        return self.settings.source_dsn.get_secret_value()
