"""What the benchmark asks of every system."""

import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog import Catalog

from tests.bench.lake import Identifier, drop
from tests.bench.stage import Stage
from tests.bench.topics import Topics
from tests.bench.workloads import Workload
from tests.integration.stack import CHECKOUT

INSTALL_SECONDS = 1800
JARS = CHECKOUT / ".lakehouse/toolchain/jars"


@dataclass(frozen=True)
class Job:
    """One workload for one system. ``folder`` keeps its state, from start to start."""

    stage: Stage
    workload: Workload
    topics: Topics
    folder: Path


@dataclass(frozen=True)
class Launch:
    """How a process is started."""

    command: tuple[str, ...]
    environment: dict[str, str]
    cwd: Path = CHECKOUT
    gives_up: tuple[str, ...] = ()
    """What its log may say when it does nothing any more, though its process lives on."""


class System(ABC):
    """A way from the topics to the lake."""

    name: str
    title: str
    guarantees: str
    settings: str
    append_only = False
    """It keeps every event; a row's state is found by who reads."""
    beside = False
    """It is shown, but isn't the one to beat: by design it leaves deletes out, and is compared without them."""
    keeps_tables = False
    """It compacts its tables by itself while it runs, and is given the time to."""
    freshness: float | None = None
    """What a mirror of ours is asked for, in seconds; None: a peer."""
    component: str | None = None

    def missing(self) -> str | None:
        """Why it can't run here, after an attempt to install it; None if it can."""
        if self.component is None or (JARS / self.component).is_dir():
            return None
        command = [sys.executable, "-m", "infra.toolchain", "install", self.component]
        done = subprocess.run(
            command, cwd=CHECKOUT, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode == 0:
            return None
        return "; ".join((done.stdout + done.stderr).split("\n"))[-400:]

    def namespace(self, workload: Workload) -> str:
        """Where its tables are."""
        return f"bench_{self.name.replace('-', '_')}"

    def tables(self, job: Job) -> dict[str, Identifier]:
        """Source table to the lake's."""
        return {table: (self.namespace(job.workload), table) for table in job.workload.tables}

    def clean(self, job: Job, catalog: Catalog) -> None:
        """Have it begin anew: no state, no tables."""
        drop(catalog, [self.namespace(job.workload)])
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir(parents=True)

    @abstractmethod
    def launch(self, job: Job) -> Launch:
        """How it is started, the first time and after that; it goes on where it was."""


def inherited(job: Job) -> dict[str, str]:
    """The environment of this process, and what the stack's mirror is told."""
    return {**os.environ, **job.stage.mirror_environment}
