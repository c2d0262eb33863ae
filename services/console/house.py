"""The house: all that the console has seen of the stack, as of its last looks. Pages read it, and wait for nobody."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipelines.maintenance.plan import DueTask
from services.capture.status import CaptureReport
from services.checker.record import CheckRun
from services.facts.letters import OpenLetters
from services.facts.tables import TableFacts
from services.operations.audit_trail import Entry
from services.operations.contracts.summary import Promise
from services.operations.maintain.alerts import Condition
from services.stack.published_datasets import DatasetState
from services.verify.rounds import TableState

# Samples of a table's freshness that are kept for spark lines: 20 minutes.
SAMPLES = 120


@dataclass(frozen=True)
class Looked:
    """The last look at a part of the stack.

    ``at``: of the last one that got an answer, and ``usual`` how long that took; ``error``: why it got none, and
    ``since`` when there has been none.
    """

    at: datetime | None = None
    seconds: float = 0.0
    error: str | None = None
    since: datetime | None = None
    usual: float | None = None


@dataclass(frozen=True)
class TableView:
    """What the catalog says of a table, while its metadata is at ``location``.

    ``limits``: beyond which it is an alert. ``looked_at``: when its condition was looked at, by the monotonic clock.
    ``error``: why less is known.
    """

    location: str
    facts: TableFacts
    asked: float | None
    promise: Promise | None
    limits: Mapping[str, float] = field(default_factory=dict)
    condition: Condition | None = None
    alerts: tuple[str, ...] = ()
    due: tuple[DueTask, ...] = ()
    query_seconds: float | None = None
    looked_at: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Progress:
    """What Kafka says. ``oldest``: topic to when Kafka got the first record that the lake doesn't show.

    ``into``, ``shown``: records a second that came into topics, and that the lake shows.
    """

    lags: Mapping[str, int] = field(default_factory=dict)
    oldest: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    into: float = 0.0
    shown: float = 0.0


@dataclass
class House:
    """What has been seen. Each field is replaced as a whole by the part that looks at it."""

    tables: Mapping[str, TableView] = field(default_factory=dict)
    datasets: tuple[tuple[str, DatasetState], ...] = ()
    progress: Progress = field(default_factory=Progress)
    capture: CaptureReport | None = None
    letters: OpenLetters | None = None
    checks: Mapping[str, CheckRun] = field(default_factory=dict)
    verification: Mapping[str, TableState] = field(default_factory=dict)
    audit: tuple[Entry, ...] = ()
    upkeep: tuple[dict[str, Any], ...] = ()
    # From Prometheus: table to seconds.
    visible_lag: Mapping[str, float] = field(default_factory=dict)
    current_age: Mapping[str, float] = field(default_factory=dict)
    targets: Mapping[str, bool] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    alerts: tuple[dict[str, Any], ...] = ()
    silences: tuple[dict[str, Any], ...] = ()
    disk: tuple[int, int] | None = None
    looked: dict[str, Looked] = field(default_factory=dict)
    fresh: dict[str, deque[float]] = field(default_factory=dict)

    def note(self, part: str, seconds: float, error: str | None, since: datetime | None = None) -> None:
        """Note how a look at a part went. ``since``: when there was no answer first; None: as before, or now."""
        now, before = datetime.now(UTC), self.looked.get(part, Looked())
        if error is None:
            self.looked[part] = Looked(now, seconds, usual=seconds)
        else:
            self.looked[part] = Looked(before.at, seconds, error, before.since or since or now, before.usual)

    @property
    def unseen(self) -> dict[str, Looked]:
        """The parts whose last look got no answer."""
        return {part: looked for part, looked in self.looked.items() if looked.error}
