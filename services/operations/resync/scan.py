"""Whether the connector has read tables whole, by what it says. Pure."""

from collections.abc import Iterable

from services.operations.resync.errors import CannotResync
from services.operations.resync.notifications import COMPLETED, INITIAL, SCANNED, STARTED, Notification

# Of a table's scan. The other words say that rows may be missing.
READ_WHOLE = ("SUCCEEDED", "EMPTY")


class Scan:
    """A snapshot of one ``kind`` that has to read ``tables``. ``rows``: by table, of those that are read."""

    def __init__(self, kind: str, tables: Iterable[str]) -> None:
        self.rows: dict[str, int] = {}
        self._kind, self._tables = kind, frozenset(tables)
        self._begun, self._completed = 0, False

    def take(self, said: Notification) -> None:
        """Take note of a notification. Raises CannotResync where it says that something wasn't read."""
        if said.kind != self._kind:
            return
        self._begun += said.type == STARTED
        if self._kind == INITIAL and self._begun > 1:
            raise CannotResync("the snapshot was broken off and begun again by the connector. Run the same again.")
        self._completed |= said.type == COMPLETED
        if said.type == SCANNED and said.table in self._tables:
            if said.status not in READ_WHOLE:
                raise CannotResync(
                    f"the connector couldn't read {said.table} ({said.status}): see `make logs s=connect`. Nothing was"
                    " removed from the lake; mend the cause, and run the same again."
                )
            self.rows[said.table] = said.rows

    @property
    def whole(self) -> bool:
        """Whether all tables are read."""
        return self._completed and self._tables <= self.rows.keys()
