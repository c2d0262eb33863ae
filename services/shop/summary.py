"""What a run did, and how far it is."""

from collections import Counter
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

LATE_SECONDS = 0.1


class Summary(BaseModel):
    """What a run did.

    ``changes``: committed row changes by table and operation; ``late_share``: of the transactions, those that began
    more than LATE_SECONDS after their time; ``complete``: nothing of the plan was left undone.
    """

    model_config = ConfigDict(frozen=True)

    run: int
    seed: int
    connections: int
    transactions: int
    planned: int | None
    complete: bool
    abandoned: int
    kinds: dict[str, int]
    changes: dict[str, dict[str, int]]
    row_changes: int
    seconds: float
    rate: float
    late_share: float


@dataclass(frozen=True)
class Progress:
    """How far a run is. ``rate``: transactions a second since the last report; ``behind``: seconds behind plan."""

    seconds: float
    transactions: int
    planned: int | None
    row_changes: int
    rate: float
    behind: float


@dataclass
class Tally:
    """One connection's counts. Only its own thread writes them."""

    transactions: int = 0
    late: int = 0
    abandoned: int = 0
    row_changes: int = 0
    behind: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)


def summed(tallies: list[Tally]) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Transactions by kind, and row changes by table and operation, of all connections."""
    kinds: Counter[str] = Counter()
    changes: dict[str, dict[str, int]] = {}
    for tally in tallies:
        kinds.update(tally.kinds)
        for (table, op), rows in tally.changes.items():
            of_table = changes.setdefault(table, {})
            of_table[op] = of_table.get(op, 0) + rows
    return dict(sorted(kinds.items())), {table: dict(sorted(changes[table].items())) for table in sorted(changes)}
