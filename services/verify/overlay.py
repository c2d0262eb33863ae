"""The changes that a pinned snapshot doesn't hold yet, folded into one last state a key. Pure.

For one key, all events are on one partition, so their order is that of the offsets. A truncate has no key and lies on
some partition: it clears whatever is older than it by log position, on every partition, in the snapshot too.
A key change is a delete of the old key and a create of the new one, perhaps on another partition; the create lacks
unchanged TOAST values, which are those that the row had under its old key.
Rows without a key are a multiset: what was added and what was taken away, in whatever order.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """One change event of a table.

    ``op``: c, u, d, r (read by a snapshot) or t (truncate). ``row``: the state after the change, for ``d`` the state
    before it (at least the key), None for ``t``. ``unavailable``: columns whose unchanged value isn't in the event.
    ``old_key``: of a create that is one half of a key change. ``before``: without a key, the row that ``u`` changes.
    """

    partition: int
    offset: int
    op: str
    log_position: int
    key: Key = ()
    row: Mapping[str, Any] | None = None
    unavailable: frozenset[str] = frozenset()
    old_key: Key | None = None
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Last:
    """The last state of a key. ``row`` None: it is gone, and ``former`` is what it was, if the tail says.

    ``kept``: columns whose value is the one that the snapshot has in its row ``base`` (a key: its own or a former one).
    """

    log_position: int
    row: Mapping[str, Any] | None
    kept: frozenset[str] = frozenset()
    base: Key | None = None
    former: "Last | None" = None


@dataclass
class Overlay:
    """What to lay over a snapshot.

    The last state of each changed key, without keys the rows that were added and those that were removed, and what a
    truncate cleared.

    ``truncated_at``: rows of the snapshot with a smaller log position are gone.
    """

    keyed: dict[Key, Last] = field(default_factory=dict)
    added: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    removed: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    truncated_at: int | None = None

    def standing(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
        """Return the ``added`` or ``removed`` rows that no truncate has made void."""
        return [row for log_position, row in rows if not self.cleared(log_position)]

    def cleared(self, log_position: int) -> bool:
        """Return whether a truncate came after the event at ``log_position``."""
        return self.truncated_at is not None and log_position < self.truncated_at


def fold(changes: Iterable[Change], keyless: bool = False, truncated_at: int | None = None) -> Overlay:
    """Return the overlay of ``changes``, in any order that keeps the order of offsets within each partition.

    ``truncated_at``: of a truncate that the snapshot already holds.
    """
    overlay = Overlay(truncated_at=truncated_at)
    for change in _in_log_order(changes):
        if change.op == "t":
            overlay.truncated_at = max(change.log_position, overlay.truncated_at or 0)
        elif keyless:
            old = change.row if change.op == "d" else change.before
            if old is not None:
                overlay.removed.append((change.log_position, old))
            if change.op != "d" and change.row is not None:
                overlay.added.append((change.log_position, change.row))
        else:
            overlay.keyed[change.key] = _after(overlay.keyed, change)
    for key, last in overlay.keyed.items():
        if overlay.cleared(last.log_position):
            overlay.keyed[key] = Last(last.log_position, None)
    return overlay


def _in_log_order(changes: Iterable[Change]) -> Iterator[Change]:
    """By log position across partitions, never against the order of offsets within one."""
    partitions: dict[int, list[Change]] = {}
    for change in changes:
        partitions.setdefault(change.partition, []).append(change)
    return heapq.merge(*partitions.values(), key=lambda change: change.log_position)


def _after(keyed: Mapping[Key, Last], change: Change) -> Last:
    last = keyed.get(change.key)
    if change.op == "d" or change.row is None:
        return Last(change.log_position, None, former=last)
    if not change.unavailable:
        return Last(change.log_position, change.row)
    if change.old_key is None:
        origin, before = change.key, last
    else:
        origin, before = change.old_key, keyed.get(change.old_key)
        if before is not None and before.row is None and before.log_position == change.log_position:
            before = before.former
    if before is None or before.row is None:
        return Last(change.log_position, change.row, change.unavailable, origin)
    known = before.row
    row = {name: known.get(name) if name in change.unavailable else value for name, value in change.row.items()}
    return Last(change.log_position, row, change.unavailable & before.kept, before.base)
