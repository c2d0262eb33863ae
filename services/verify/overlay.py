"""The changes that a pinned snapshot doesn't hold yet, folded into one last state a key. Pure.

For one key, all events are on one partition, so their order is that of the offsets. A truncate has no key and lies on
some partition: it clears whatever is older than it by log sequence number, on every partition, in the snapshot too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """One change event of a table.

    ``op``: c, u, d, r (read by a snapshot) or t (truncate). ``row``: the state after the change, for ``d`` the state
    before it (at least the key), None for ``t``. ``unavailable``: columns whose unchanged value isn't in the event.
    """

    partition: int
    offset: int
    op: str
    lsn: int
    key: Key = ()
    row: Mapping[str, Any] | None = None
    unavailable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Last:
    """The last state of a key. ``row`` None: it is gone. ``kept``: columns whose value is the snapshot's."""

    lsn: int
    row: Mapping[str, Any] | None
    kept: frozenset[str] = frozenset()


@dataclass
class Overlay:
    """What to lay over a snapshot: the last state of each changed key, rows to append, and what a truncate cleared.

    ``truncated_lsn``: rows of the snapshot with a smaller log sequence number are gone.
    """

    keyed: dict[Key, Last] = field(default_factory=dict)
    appended: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    truncated_lsn: int | None = None

    def rows(self) -> list[Mapping[str, Any]]:
        """Appended rows that no truncate cleared."""
        return [row for lsn, row in self.appended if not self.cleared(lsn)]

    def cleared(self, lsn: int) -> bool:
        """Whether a truncate came after the event at ``lsn``."""
        return self.truncated_lsn is not None and lsn < self.truncated_lsn


def fold(changes: Iterable[Change], keyless: bool = False, truncated_lsn: int | None = None) -> Overlay:
    """The overlay of ``changes``, which come in offset order within each partition.

    ``truncated_lsn``: of a truncate that the snapshot already holds.
    """
    overlay = Overlay(truncated_lsn=truncated_lsn)
    for change in changes:
        if change.op == "t":
            overlay.truncated_lsn = max(change.lsn, overlay.truncated_lsn or 0)
        elif keyless:
            # A keyless table is mirrored by appending: its updates and deletes have no row to apply to.
            if change.op != "d" and change.row is not None:
                overlay.appended.append((change.lsn, change.row))
        else:
            overlay.keyed[change.key] = _after(overlay.keyed.get(change.key), change)
    for key, last in overlay.keyed.items():
        if overlay.cleared(last.lsn):
            overlay.keyed[key] = Last(last.lsn, None)
    return overlay


def _after(last: Last | None, change: Change) -> Last:
    if change.op == "d" or change.row is None:
        return Last(change.lsn, None)
    if not change.unavailable or (last is not None and last.row is None):
        return Last(change.lsn, change.row, frozenset())
    if last is None or last.row is None:
        return Last(change.lsn, change.row, change.unavailable)
    row = {name: last.row.get(name) if name in change.unavailable else value for name, value in change.row.items()}
    return Last(change.lsn, row, change.unavailable & last.kept)
