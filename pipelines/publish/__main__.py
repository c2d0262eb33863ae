"""Keep the datasets of all roles up to date until SIGTERM: `python -m pipelines.publish`.

It asks the catalog what is due, and has that done by a process of Spark's (:mod:`pipelines.publish.worker`), which ends
when nothing changes any more: between two changes nothing of it takes memory.
"""

import fcntl
import logging
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from types import FrameType

from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from structlog.stdlib import BoundLogger

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from pipelines.protection.crypto import keys_for
from pipelines.publish.due import Due
from pipelines.publish.settings import PublishSettings
from pipelines.publish.shown import Shown
from pipelines.publish.withdraw import open_catalog, withdraw
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError

AGAIN_SECONDS = 600.0
POLL_SECONDS = 0.5
STOP_SECONDS = 8.0


@dataclass
class Publisher:
    """Keeps datasets up to date.

    ``namespaces``: of tables that are shown; ``worker``: the command that brings all datasets.
    """

    settings: PublishSettings
    datasets: list[Shown]
    namespaces: frozenset[str]
    due: Due
    stop: Event
    log: BoundLogger
    worker: Sequence[str] = (sys.executable, "-m", "pipelines.publish.worker")
    meter: Meter = field(default_factory=lambda: Meter("publisher"))
    _withdrawn: bool = False
    _trouble: str | None = None

    def run(self) -> None:
        """Return when asked to stop."""
        pause = 0.0
        while not self.stop.wait(pause):
            pause = self.settings.publish_seconds
            (self.settings.state_dir / "alive").touch()
            self._withdrawn = self._withdrawn or (self._alone() and self._withdraw())
            self._publish()

    def _publish(self) -> None:
        """Look for datasets that are due, and run the worker if there are any."""
        try:
            looks = self.due.looks(open_catalog(self.settings), self.datasets)
            self._trouble = None
            self.meter.put("lakehouse_datasets_due", len(looks))
        except (RESTError, RequestException) as error:
            # What a catalog that is down, or just comes up, makes of a look: it is tried again.
            said = type(error).__name__
            if said != self._trouble:
                self.log.error("not_looked", why=said)
            self._trouble = said
            return
        if not looks or self.stop.is_set():
            return
        code = self._work()
        if self.stop.is_set():
            return
        self.meter.add("lakehouse_publish_runs_total", outcome="failed" if code else "done")
        if code == 0:
            self.due.succeeded(looks)
            return
        self.log.error("not_all_published", datasets=sorted(looks), exit_code=code, again_seconds=AGAIN_SECONDS)
        self.due.failed(looks)

    def _work(self) -> int | None:
        """Run the worker, which says itself that it lives, to its end; its exit code; None: it had to be killed."""
        process = subprocess.Popen(self.worker)
        while process.poll() is None and not self.stop.wait(POLL_SECONDS):
            pass
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return None
        return process.returncode

    def _alone(self) -> bool:
        """Return whether no JVM of an earlier worker has the lock: it could still commit what is withdrawn."""
        with self.settings.driver_lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _withdraw(self) -> bool:
        """Withdraw what isn't shown any more; return whether all of it is gone."""
        try:
            for name in withdraw(open_catalog(self.settings), self.namespaces, self.datasets):
                self.log.info("withdrawn", dataset=name)
        except (RESTError, RequestException) as error:
            self.log.error("not_withdrawn", why=type(error).__name__)
            return False
        return True


def main() -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    log, stop, meter = json_log(), Event(), Meter("publisher")
    serve(meter, log)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    # The catalog's server deletes a table's old metadata, and PyIceberg then complains that it's gone.
    logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)
    settings = PublishSettings()
    try:
        specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
        keys = keys_for(contracts.values(), settings.protection_key)
    except (SpecError, ContractError) as error:
        log.error("bad_spec", error=str(error))
        return 1
    datasets = Shown.of(specs, settings.source_name, contracts.values())
    beside = {name.partition(".")[0] for name in (*specs.streams, *specs.derived)}
    namespaces = frozenset({settings.source_name, *beside})
    if not datasets:
        log.info("nothing_to_publish")
    fingerprint = None if keys is None else keys.fingerprint
    due = Due(fingerprint, settings.state_dir / "published.json", AGAIN_SECONDS)
    Publisher(settings, datasets, namespaces, due, stop, log, meter=meter).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
