"""Great Expectations' own page of a run, made by a process of its own: the package takes much memory."""

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from tempfile import TemporaryDirectory

from services.checker.record import CheckRun
from services.stack.errors import LakehouseError
from services.stack.settings import CHECKOUT

SECONDS, MOST_PAGES, MOST_BYTES = 60.0, 32, 4 * 2**20


class NoDataDocs(LakehouseError):
    """The page of a run can't be made."""


class DataDocs:
    """Pages of runs, as markup. A run never changes, so its page is made once; one page is made at a time."""

    def __init__(self, command: tuple[str, ...] = (sys.executable, "-m", "quality.page")) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, str] = OrderedDict()

    def known(self, run: str) -> str | None:
        """Return a page that was made before."""
        return self._pages.get(run)

    def page(self, run: CheckRun, document: str) -> str:
        """Return the page of a run. Raises NoDataDocs."""
        with self._lock:
            if run.run not in self._pages:
                self._pages[run.run] = self._made(run, document)
                while len(self._pages) > MOST_PAGES:
                    self._pages.popitem(last=False)
            return self._pages[run.run]

    def _made(self, run: CheckRun, document: str) -> str:
        asked = {
            "table": run.table, "snapshot_id": run.snapshot_id, "started_at": run.started_at.isoformat(),
            "document": json.loads(document),
        }  # fmt: skip
        with TemporaryDirectory() as home:
            # None of the console's secrets are in this environment.
            environment = {"HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
            try:
                done = subprocess.run(
                    self._command, input=json.dumps(asked), capture_output=True, text=True, encoding="utf-8",
                    timeout=SECONDS, check=False, cwd=CHECKOUT, env=environment,
                )  # fmt: skip
            except (subprocess.TimeoutExpired, OSError) as error:
                raise NoDataDocs(f"Great Expectations made no page of {run.table}: {type(error).__name__}") from None
        if done.returncode or len(done.stdout) > MOST_BYTES:
            said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise NoDataDocs(f"Great Expectations can't show this run of {run.table}: {said[0][:300]}")
        return done.stdout
