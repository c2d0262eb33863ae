"""Records: the rows of one of the lake's own tables that are new."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from openlineage.client.event_v2 import RunEvent
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, GreaterThanOrEqual

from services.lineage.follow.world import State, World
from services.stack.lake import own_table

Row = dict[str, Any]
# Rows are dated when work began or ended, and written some time later.
LATE = timedelta(hours=1)


class Records:
    """Tells of the rows of a table, by ``events``. ``at``: the column that dates them."""

    def __init__(
        self, name: str, at: str, columns: tuple[str, ...], events: Callable[[World, list[Row]], Iterable[RunEvent]]
    ) -> None:
        self.name = name
        self._at, self._columns, self._events = at, columns, events

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the snapshot that was read, the newest row's date, and which of the last rows are told."""
        table = own_table(world.catalog, self.name)
        snapshot = table.current_snapshot() if table is not None else None
        if table is None or snapshot is None or snapshot.snapshot_id == state.get("snapshot"):
            return
        where: BooleanExpression = AlwaysTrue()
        if state.get("at"):
            since = datetime.fromisoformat(str(state["at"])) - LATE
            where = GreaterThanOrEqual(term=self._at, value=since.isoformat())
        rows: list[Row] = table.scan(where, selected_fields=self._columns).to_arrow().to_pylist()
        rows.sort(key=lambda row: row[self._at])
        told = set(state.get("told") or ())  # type: ignore[call-overload]
        news = [row for row in rows if _identity(row) not in told]
        newest = rows[-1][self._at] if rows else None
        late = [_identity(row) for row in rows if newest is None or row[self._at] >= newest - LATE]
        reached = {"snapshot": snapshot.snapshot_id, "at": newest.isoformat() if newest else None, "told": late}
        yield list(self._events(world, news)), reached


def _identity(row: Row) -> str:
    return hashlib.sha256(repr(sorted(row.items())).encode()).hexdigest()[:16]
