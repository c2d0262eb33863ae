"""What was measured, as it is written to results.json."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

# A scan that costs no more than this, of one of the same rows freshly compacted, needs no compaction.
CHEAP_SCAN = 1.2


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class CatchUp(_Model):
    """From the start of the process until the last change of the backlog was visible."""

    changes: int
    seconds: float
    first_visible_seconds: float
    cpu_seconds: float
    peak_mib: float

    @property
    def rows_per_second(self) -> float:
        """Row changes a second, the start of the process included."""
        return self.changes / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU-seconds for a million row changes."""
        return self.cpu_seconds / self.changes * 1e6


class Compaction(_Model):
    """What it took until scans cost what a fresh table's do: Iceberg's own rewrite of a table as it was left; or what a
    system that keeps its tables did itself, from when all was visible to its last commit.
    """

    seconds: float
    cpu_seconds: float


class Live(_Model):
    """Under a steady load. Freshness: from commit to visible, over the contiguous prefix. ``unseen``: never visible.
    ``warm_up``: how many changes of the same load came before those that are counted.
    """

    warm_up: int = 0
    changes: int
    rate: float
    p50: float
    p95: float
    max: float
    counted: int
    unseen: int
    cpu_seconds_per_minute: float
    cpu_per_million: float
    peak_mib: float


class Restart(_Model):
    """After SIGKILL under the same load: until the lake was as fresh as before (1.5 times its p95), or all there.
    ``changes``: of that load.
    """

    seconds: float
    changes: int


class Shape(_Model):
    """What is in the tables, and what reading all of it costs beside the same rows compacted."""

    data_files: int
    delete_files: int
    deletes: int
    snapshots: int
    scan_seconds: float
    compacted_seconds: float

    @classmethod
    def of(cls, shapes: Sequence["Shape"]) -> "Shape":
        """That of several tables together."""
        return cls(**{name: sum(getattr(shape, name) for shape in shapes) for name in cls.model_fields})

    @property
    def scan_ratio(self) -> float:
        """As left, of compacted."""
        return self.scan_seconds / self.compacted_seconds


class Amplification(_Model):
    """Bytes that the commits wrote (data and deletes), of the bytes of the rows that were changed; and how many of the
    former by commits that changed no row.
    """

    written_bytes: int
    rewritten_bytes: int = 0
    changed_bytes: float

    @property
    def ratio(self) -> float:
        """Written by changed."""
        return self.written_bytes / self.changed_bytes

    @property
    def rewritten_ratio(self) -> float:
        """Rewritten by changed."""
        return self.rewritten_bytes / self.changed_bytes


class Traffic(_Model):
    """Bytes between a system and the object store while its process lived, its upkeep, metadata and HTTP's own with
    them, and those of the rows that were changed in that time.
    """

    read_bytes: int
    sent_bytes: int
    changed_bytes: float

    @property
    def read_ratio(self) -> float:
        """Read by changed."""
        return self.read_bytes / self.changed_bytes

    @property
    def sent_ratio(self) -> float:
        """Sent by changed."""
        return self.sent_bytes / self.changed_bytes


Status = Literal["exact", "inexact", "failed", "not installed"]


class Run(_Model):
    """One system, one workload, once. A run that isn't exact has no figures, only ``why``.

    ``upkeep``, ``live_upkeep``: what the system did by itself once the backlog, or both loads, were visible, and
    ``arrived_shape`` how the tables were before that, when the backlog was; ``compaction``, ``live_compaction``: of the
    tables as they were left, if their scan wasn't cheap.
    """

    system: str
    workload: str
    number: int
    status: Status
    why: str = ""
    catch_up: CatchUp | None = None
    arrived_shape: Shape | None = None
    upkeep: Compaction | None = None
    compaction: Compaction | None = None
    backlog_shape: Shape | None = None
    backlog_amplification: Amplification | None = None
    backlog_traffic: Traffic | None = None
    live: Live | None = None
    restart: Restart | None = None
    live_shape: Shape | None = None
    live_amplification: Amplification | None = None
    live_traffic: Traffic | None = None
    live_upkeep: Compaction | None = None
    live_compaction: Compaction | None = None

    @property
    def readable_seconds(self) -> float | None:
        """From the start until the backlog was there and a scan of it was cheap."""
        if self.catch_up is None or self.backlog_shape is None:
            return None
        if self.arrived_shape is not None and self.arrived_shape.scan_ratio <= CHEAP_SCAN:
            return self.catch_up.seconds
        seconds = self.catch_up.seconds + (self.upkeep.seconds if self.upkeep else 0)
        if self.backlog_shape.scan_ratio <= CHEAP_SCAN:
            return seconds
        return None if self.compaction is None else seconds + self.compaction.seconds

    @property
    def live_changes(self) -> int:
        """Of both live loads, their warming up included."""
        live = self.live.warm_up + self.live.changes if self.live else 0
        return live + (self.restart.changes if self.restart else 0)

    @property
    def live_cpu_per_million(self) -> float | None:
        """CPU-seconds for a million live changes, with the least of maintenance that keeps scans cheap: what the system
        did after the loads, and where that left scans dear, one compaction, shared by all changes of these loads, their
        warming up included.
        """
        if self.live is None:
            return None
        kept = sum(done.cpu_seconds for done in (self.live_upkeep, self.live_compaction) if done)
        return self.live.cpu_per_million + kept / self.live_changes * 1e6


class MergePoint(_Model):
    """One point of a curve: the merge of one batch into a table of ``rows`` rows."""

    distribution: str
    rows: int
    batch: int
    seconds: float
    tries: int


class Machine(_Model):
    """Where it was measured."""

    cores: int
    memory_gib: float
    processor: str
    kernel: str
    python: str
    java: str
    load_before: float


class Results(_Model):
    """A whole benchmark."""

    plan: str
    began: str
    minutes: float
    seed: int
    commit: str
    machine: Machine
    versions: dict[str, str]
    runs: tuple[Run, ...]
    curve: tuple[MergePoint, ...] = ()
