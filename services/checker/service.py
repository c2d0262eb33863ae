"""The service: see what is due or asked for, have it checked by a process of Spark's, rest; until asked to stop."""

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from structlog.stdlib import BoundLogger

from pipelines.checks.jobs import JOBS, Job
from pipelines.lake.names import lake_table
from pipelines.metrics.meter import Meter
from pipelines.specs.load import Specs, load_specs
from quality import odcs
from quality.contract import Contract
from quality.errors import ContractError
from services.checker import record
from services.checker.record import CheckRun, Request
from services.checker.settings import CheckerSettings
from services.stack.errors import LakehouseError
from services.stack.lake import beside, open_catalog, tables
from services.stack.stopping import Stop

POLL_SECONDS = 2.0
TROUBLE_SECONDS = 10.0
STOP_SECONDS = 20.0
# What a server that is down, or just comes up, makes of a look: it is tried again.
PASSING = (LakehouseError, ContractError, RESTError, RequestException, OSError)


class ChecksEnded(LakehouseError):
    """Checks didn't come to their end."""


@dataclass
class CheckerService:
    """Has the tables of one source checked, for ever."""

    settings: CheckerSettings
    stop: Stop
    log: BoundLogger
    specs: Specs = field(default_factory=load_specs)
    looked: float = field(default_factory=time.monotonic)
    seen: int | None = None
    trouble: str | None = None
    meter: Meter = field(default_factory=lambda: Meter("checker"))

    def run(self) -> None:
        """Return when asked to stop."""
        alive = self.settings.state_dir / "alive"
        pause = POLL_SECONDS
        while not self.stop.wait(pause):
            alive.touch()
            try:
                self._turn(open_catalog(self.settings), alive)
                self.trouble, pause = None, POLL_SECONDS
            except PASSING as error:
                pause = TROUBLE_SECONDS
                said = " ".join(f"{error}".split())
                if said != self.trouble:
                    self.log.warning("trouble", why=said)
                self.trouble = said

    def _turn(self, catalog: Catalog, alive: Path) -> None:
        asked = record.requested(catalog)
        if asked != self.seen:
            self._check(record.open_requests(catalog), alive)
            # What came meanwhile is another snapshot.
            self.seen = asked
        if time.monotonic() - self.looked >= self.settings.check_seconds:
            self.looked = time.monotonic()
            contracts = {
                self._called(table): contract for table, contract in odcs.load(self.settings.contracts).items()
            }
            found = due(self._snapshots(catalog), record.newest(catalog), contracts)
            self._check([Request(None, name, False) for name in found], alive)

    def _check(self, requests: Iterable[Request], alive: Path) -> None:
        """Have tables checked, all by one process, and wait for it."""
        schemas = {self.settings.namespace(schema): schema for schema in self.settings.schemas}
        own = {*self.specs.streams, *self.specs.derived}
        jobs = []
        for request in requests:
            namespace, _, table = request.table.partition(".")
            if request.table in own:
                jobs.append(Job(request.table, request.id, request.full))
            elif namespace in schemas:
                jobs.append(Job(f"{schemas[namespace]}.{table}", request.id, request.full))
        if not jobs or self.stop.asked:
            return
        self.meter.add("lakehouse_checks_total", outcome="begun")
        process = subprocess.Popen([sys.executable, "-m", "pipelines.checks", JOBS.dump_json(jobs).decode()])
        while process.poll() is None and not self.stop.wait(POLL_SECONDS / 4):
            alive.touch()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        elif process.returncode:
            self.meter.add("lakehouse_checks_total", outcome="failed")
            # What was asked for has no answer yet, and is tried again.
            raise ChecksEnded(f"the process that checks {', '.join(job.table for job in jobs)} ended with exit code"
                              f" {process.returncode}: what it printed is in the log before this")  # fmt: skip

    def _snapshots(self, catalog: Catalog) -> dict[str, int]:
        found = {}
        for table in (*tables(catalog, self.settings), *beside(catalog, self.settings)):
            snapshot = table.current_snapshot()
            if snapshot is not None:
                found[".".join(table.name()[-2:])] = snapshot.snapshot_id
        return found

    def _called(self, table: tuple[str, str]) -> str:
        return ".".join(lake_table(self.specs, self.settings.source_name, table))


def due(snapshots: Mapping[str, int], runs: Mapping[str, CheckRun], contracts: Mapping[str, Contract]) -> list[str]:
    """Return the lake's tables whose contract is to be checked, by what the lake calls them.

    They have changed since they were checked last, or their contract has, or asking failed.
    """
    found = []
    for name, contract in contracts.items():
        run = runs.get(name)
        checked = (run.snapshot_id, run.contract) if run is not None and not run.couldnt_ask else None
        if name in snapshots and checked != (snapshots[name], contract.version):
            found.append(name)
    return found
