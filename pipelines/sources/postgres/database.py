"""PostgreSQL as services see it: a session over the functions of this room."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg
import pyarrow as pa
from psycopg import sql

from pipelines.sources.base.capture import Reread, SlotState, TableCapture
from pipelines.sources.base.database import LogPosition, SourceAddress
from pipelines.sources.base.tables import EVERY_KEY, DescribedTable, Key, KeyRange, SourceTable, TableColumn
from pipelines.sources.postgres import capture_tables, chunks, exclusions, position, published, reader, signals
from pipelines.sources.postgres.capture import PUBLICATION, SLOT
from pipelines.sources.postgres.chunks import KeyOrder
from pipelines.sources.postgres.connection import connect
from pipelines.sources.postgres.describe import describe
from pipelines.sources.postgres.errors import translated
from pipelines.sources.postgres.lock import lock
from pipelines.sources.postgres.snapshot import Snapshot


@dataclass(frozen=True)
class PostgresDatabase:
    """A :class:`pipelines.sources.base.database.SourceDatabase`."""

    address: SourceAddress

    @translated()
    def connect(self) -> "PostgresSession":
        """Open a session. Raises SourceUnavailable."""
        return PostgresSession(connect(self.address), self.address)


class PostgresSession:
    """A :class:`pipelines.sources.base.database.SourceSession`."""

    log_reader = f"replication slot {SLOT}"

    def __init__(self, connection: psycopg.Connection, address: SourceAddress) -> None:
        self._connection, self._address = connection, address
        self._orders: dict[SourceTable, KeyOrder | None] = {}

    def __enter__(self) -> Self:
        """Return the session, which ends with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session."""
        self._connection.__exit__(kind, error, trace)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of a block or nothing: in a transaction, or within one at a savepoint."""
        with translated(), self._connection.transaction():
            yield

    @translated()
    def tables(self) -> list[SourceTable]:
        """Return the tables that the publication carries, with columns and key."""
        return published.captured_tables(self._connection, PUBLICATION, self._address.schemas)

    @translated()
    def uncaptured_tables(self) -> list[str]:
        """Return ``schema.table`` of what the captured schemas hold and the publication leaves out."""
        return published.uncaptured_tables(self._connection, PUBLICATION, self._address.schemas)

    @translated()
    def describe(self, schema: str, name: str) -> DescribedTable | None:
        """Return what the catalog says of a table that a contract could promise; None: there is no such table."""
        return describe(self._connection, schema, name)

    @translated()
    def hold_snapshot(self) -> Snapshot:
        """Begin a transaction that sees one state of the source and renders values canonically."""
        reader.prepare(self._connection)
        return reader.hold_snapshot(self._connection)

    @translated()
    def release_snapshot(self) -> None:
        """End the transaction."""
        self._connection.execute("ROLLBACK")

    def rows(
        self,
        table: SourceTable,
        columns: tuple[TableColumn, ...],
        within: KeyRange = EVERY_KEY,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows, as batches of text columns ``c0, c1, …`` in the order of ``columns``. Raises SourceLocked at once.

        Later, the reader of the batches would have the error, and tell it as its own.
        """
        with translated():
            reader.open_table(self._connection, table)
        return self._rows(table, columns, within)

    def _rows(self, table: SourceTable, columns: tuple[TableColumn, ...], within: KeyRange) -> Iterator[pa.RecordBatch]:
        with translated():
            yield from reader.read_rows(self._connection, table, columns, self._condition(table, within))

    @translated()
    def count_rows(self, table: SourceTable) -> int:
        """Return how many rows the table has."""
        return reader.count_rows(self._connection, table)

    @translated()
    def count_equal(self, schema: str, name: str, values: Mapping[str, str]) -> int:
        """Return how many rows have these values, by column, as text; of a table that isn't there 0."""
        return reader.count_equal(self._connection, sql.Identifier(schema, name), values)

    @translated()
    def has_more_rows(self, table: SourceTable, rows: int) -> bool:
        """Return whether the table has more rows than that; stops counting there."""
        return chunks.has_more_rows(self._connection, table, rows)

    @translated()
    def estimate_rows(self, table: SourceTable) -> int | None:
        """Return the planner's estimate; None before the first ANALYZE."""
        return reader.estimate_rows(self._connection, table)

    @translated()
    def storage(self, table: SourceTable) -> str:
        """Name the files that hold the table now: TRUNCATE, which isn't MVCC-safe, changes them."""
        return reader.storage(self._connection, table)

    @translated()
    def has_chunks(self, table: SourceTable) -> bool:
        """Return whether the table has keys in an order that PostgreSQL shares with the lake's readers."""
        return self._order(table) is not None

    @translated()
    def end_of_chunk(self, table: SourceTable, after: Key | None, rows: int) -> Key | None:
        """Return the key of the last of so many rows after ``after``; None: there are fewer than that left."""
        order = self._order(table)
        assert order is not None
        return chunks.end_of_chunk(self._connection, table, order, after, rows)

    @translated()
    def captures(self) -> list[TableCapture]:
        """Return what becomes of each table of the captured schemas."""
        return capture_tables.read_captures(self._connection, self._address.name, self._address.schemas)

    def why_left_out(self) -> dict[str, str]:
        """Return ``schema.table`` of every table that capture doesn't read, and the reason."""
        return capture_tables.why_left_out(self.captures())

    @translated()
    def exclude(self, schema: str, table: str, column: str | None, because: str) -> bool:
        """Have capture leave out a table, or a column of it, from now on; return whether it didn't."""
        return exclusions.exclude(self._connection, schema, table, column, because)

    @translated()
    def include(self, schema: str, table: str, column: str | None) -> bool:
        """Have capture take in again what was excluded; return whether it was."""
        return exclusions.include(self._connection, schema, table, column)

    @translated()
    def slot(self) -> SlotState | None:
        """Return the replication slot; None: there is none."""
        return capture_tables.read_slot(self._connection, SLOT)

    @translated()
    def log_position(self) -> LogPosition:
        """Return where the log ends now."""
        return position.log_position(self._connection)

    @translated()
    def beat(self) -> None:
        """Commit a change of the heartbeat, which the slot then passes. Raises NotPrepared."""
        position.beat(self._connection)

    @translated()
    def unread_bytes(self, until: LogPosition) -> int | None:
        """Return how much of the log up to ``until`` Kafka hasn't acknowledged; None: there is no slot."""
        return position.slot_lag(self._connection, until)

    @translated()
    def request_reread(self, table: SourceTable, within: KeyRange | None = None, at_once: bool = False) -> str:
        """Ask the connector for an incremental snapshot of a table, or a blocking one, and return the signal's id."""
        if at_once:
            return signals.ask_for_blocking_snapshot(self._connection, table.schema, table.name)
        where = None if within is None else self._condition(table, within).as_string(self._connection)
        return signals.ask_for_snapshot(self._connection, table.schema, table.name, where)

    @contextmanager
    def locked(self, table: SourceTable, seconds: float) -> Iterator[None]:
        """Keep a table as it is within the block: its writers wait, its readers don't."""
        with translated():
            lock(self._connection, table, seconds)
        try:
            yield
        finally:
            with translated():
                self._connection.execute("ROLLBACK")

    @translated()
    def open_rereads(self) -> list[Reread]:
        """Return the tables of which rows are to be read again, or looked at, because no event tells what changed."""
        return signals.open_rereads(self._connection)

    @translated()
    def close_reread(self, reread: Reread, outcome: str) -> None:
        """Say what became of such a table."""
        signals.close_reread(self._connection, reread, outcome)

    @translated()
    def rereads_requested(self) -> int:
        """Return how many incremental snapshots were ever asked for."""
        return signals.asked_so_far(self._connection)

    def _order(self, table: SourceTable) -> KeyOrder | None:
        if table not in self._orders:
            self._orders[table] = chunks.key_order(self._connection, table)
        return self._orders[table]

    def _condition(self, table: SourceTable, within: KeyRange) -> sql.Composable:
        order = None if within == EVERY_KEY else self._order(table)
        return reader.EVERY_ROW if order is None else order.condition(within)
