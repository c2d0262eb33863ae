"""What a verification found."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from services.verify.explanation import Explanation

Kind = Literal["differs", "missing", "extra", "duplicate"]


@dataclass(frozen=True)
class Difference:
    """A row that isn't the same on both sides.

    ``key``: key column to value (all compared columns in a table without key). ``values``: each differing column to the
    source's value and the lake's, as text; only for ``differs``. ``count``: how often, where rows can repeat.
    """

    kind: Kind
    key: dict[str, str | None]
    values: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    count: int = 1


@dataclass
class TableReport:
    """What was found of one table.

    ``position``: partition to the offset up to which its snapshot held the topic; ``tail_events``: those laid over it
    to reach the agreed position. ``explanation``: what explains that it differs.
    """

    table: str
    lake_table: str | None = None
    snapshot_id: int | None = None
    position: dict[int, int] = field(default_factory=dict)
    rows_source: int = 0
    rows_lake: int = 0
    differing: int = 0
    missing: int = 0
    extra: int = 0
    duplicates: int = 0
    tail_events: int = 0
    undecodable: int = 0
    columns_compared: int = 0
    not_compared: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    examples: list[Difference] = field(default_factory=list)
    explanation: tuple[Explanation, ...] = ()
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.differing or self.missing or self.extra or self.duplicates or self.problems)


@dataclass
class Report:
    """All tables, and the agreed position: the source's snapshot (xmin:xmax:running) and its log's position."""

    snapshot: str
    lsn: str
    tables: list[TableReport] = field(default_factory=list)
    not_captured: list[str] = field(default_factory=list)
    only_in_lake: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether the lake equals the source."""
        return all(table.equal for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        plain = asdict(self)
        for table, data in zip(self.tables, plain["tables"], strict=True):
            data["equal"] = table.equal
            data["snapshot_id"] = None if table.snapshot_id is None else str(table.snapshot_id)
            for example in data["examples"]:
                example["values"] = {name: {"source": s, "lake": k} for name, (s, k) in example["values"].items()}
        return {"equal": self.equal, **plain}
