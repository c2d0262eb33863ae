"""What became of a stream's records."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from pipelines.ledger.entries import Counts


@dataclass
class StreamOutcome:
    """What became of a stream's records in one go. ``lateness``: seconds from the event to Kafka, at most."""

    rows: int = 0
    counts: Counts = field(default_factory=Counts)
    commits: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    changes: list[str] = field(default_factory=list)
    not_enforced: dict[str, str] = field(default_factory=dict)
    layout_refused: str | None = None
    oldest: datetime | None = None
    lateness: float | None = None
    lost: int = 0
