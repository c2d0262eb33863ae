"""How old the lake is: of each change, from its commit in the source until it and all before it are visible. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """A change as the topic has it. ``committed``: seconds since 1970; ``key``: the record's key, as it is there."""

    table: str
    lsn: int
    key: bytes
    op: str
    committed: float


@dataclass(frozen=True)
class Ages:
    """Of the changes of a while, ordered by log position: seconds until the prefix up to each was visible.

    ``unseen``: changes that weren't visible when watching ended, nor followed by a change of their key that was.
    """

    committed: tuple[float, ...]
    visible: tuple[float, ...]
    unseen: int

    @property
    def seconds(self) -> list[float]:
        """Age by change."""
        return [seen - then for then, seen in zip(self.committed, self.visible, strict=True)]


def ages(changes: Iterable[Change], seen: Mapping[str, Mapping[int, float]]) -> Ages:
    """Ages of the changes that leave a row; ``seen``: table to log position to when it was visible.

    A change that a later one of its key replaced before anybody looked counts as visible with that one. Deletes leave
    nothing that could be seen; that they are applied is for the comparison of rows.
    """
    ordered = sorted(changes, key=lambda change: change.lsn)
    found: list[float | None] = [None] * len(ordered)
    newest: dict[tuple[str, bytes], float] = {}
    for i in range(len(ordered) - 1, -1, -1):
        change = ordered[i]
        name = change.table, change.key
        at = min(
            (t for t in (seen.get(change.table, {}).get(change.lsn), newest.get(name)) if t is not None), default=None
        )
        if change.op == "d":
            # What was before a delete is gone with it, seen or not.
            newest.pop(name, None)
            continue
        found[i] = at
        if at is not None:
            newest[name] = at
    kept: list[tuple[float, float]] = []
    unseen, reached = 0, -math.inf
    gone = _deleted_unseen(ordered, found)
    for i, change in enumerate(ordered):
        if change.op == "d" or i in gone:
            continue
        at = found[i]
        if at is None:
            unseen += 1
            continue
        reached = max(reached, at)
        kept.append((change.committed, max(reached, change.committed)))
    return Ages(tuple(c for c, _ in kept), tuple(v for _, v in kept), unseen)


def _deleted_unseen(ordered: Sequence[Change], found: Sequence[float | None]) -> set[int]:
    """Changes that nobody saw because their row was deleted soon afterwards."""
    deleted: set[tuple[str, bytes]] = set()
    gone = set()
    for i in range(len(ordered) - 1, -1, -1):
        change = ordered[i]
        name = change.table, change.key
        if change.op == "d":
            deleted.add(name)
        elif found[i] is None and name in deleted:
            gone.add(i)
        else:
            deleted.discard(name)
    return gone


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values don't exceed. ValueError if there are none."""
    if not values:
        raise ValueError("there are no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def caught_up(changes: Ages, since: float, within: float) -> float | None:
    """When, after ``since``, a look first showed the prefix up to changes no older than ``within`` seconds, as every
    later look did too; None if that never was.
    """
    newest: dict[float, float] = {}
    for then, seen in zip(changes.committed, changes.visible, strict=True):
        if then >= since:
            newest[seen] = max(then, newest.get(seen, then))
    late = [seen for seen, then in newest.items() if seen - then > within]
    return min((seen for seen in newest if seen > max(late, default=since)), default=None)
