"""What services ask of a source, whatever its kind: its tables and rows at a snapshot, its log, and reading rows again.

A session is one connection. Whatever reaches the database raises :class:`pipelines.sources.base.errors.SourceError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pydantic import SecretStr

from pipelines.sources.base.capture import Reread, SlotState, TableCapture
from pipelines.sources.base.tables import EVERY_KEY, DescribedTable, Key, KeyRange, SourceTable, TableColumn

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SourceAddress:
    """Where a source's database is, and as whom to connect.

    ``name``: the source's, the first part of its topics' names. ``schemas``: those that are captured. ``application``:
    a name by which the database shows the session.
    """

    name: str
    schemas: tuple[str, ...]
    host: str
    port: int
    database: str
    user: str
    password: SecretStr
    application: str


@dataclass(frozen=True)
class LogPosition:
    """A position in the source's log: as the source prints it, as a number, and the source's clock there."""

    text: str
    number: int
    at: datetime


class Snapshot(Protocol):
    """One state of the source. Its text names it, for people."""

    def sees(self, transaction: int) -> bool:
        """Return whether a transaction that did commit is visible, by the number that the log has for it."""
        ...


class TableReader(Protocol):
    """Tables and their rows. Within :meth:`hold_snapshot` all that is read is of one state of the source."""

    def tables(self) -> list[SourceTable]:
        """Return the captured tables, with columns and key."""
        ...

    def uncaptured_tables(self) -> list[str]:
        """Return ``schema.table`` of what the captured schemas hold and capture was never given."""
        ...

    def describe(self, schema: str, name: str) -> DescribedTable | None:
        """Return what the source says of a table that a contract could promise; None: there is no such table."""
        ...

    def hold_snapshot(self) -> Snapshot:
        """Begin to see one state of the source, until :meth:`release_snapshot`, and say which state that is."""
        ...

    def release_snapshot(self) -> None:
        """See the source as it is from now on."""
        ...

    def rows(
        self,
        table: SourceTable,
        columns: tuple[TableColumn, ...],
        within: KeyRange = EVERY_KEY,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows, as batches of text columns ``c0, c1, …`` in the order of ``columns``.

        A null is a null, an empty text an empty text. A range needs a table with chunks (:meth:`has_chunks`).
        Raises SourceLocked, before there is an iterator, while somebody changes the table and a snapshot is held.
        """
        ...

    def count_rows(self, table: SourceTable) -> int:
        """Return how many rows the table has."""
        ...

    def count_equal(self, schema: str, name: str, values: Mapping[str, str]) -> int:
        """Return how many rows have these values, by column, as text; of a table that isn't there 0."""
        ...

    def has_more_rows(self, table: SourceTable, rows: int) -> bool:
        """Return whether the table has more rows than that; stops counting there."""
        ...

    def estimate_rows(self, table: SourceTable) -> int | None:
        """Return the source's own estimate, for progress only; None: it has none."""
        ...

    def storage(self, table: SourceTable) -> str:
        """Name the storage that holds the table now. A table that was emptied for every snapshot has another one."""
        ...

    def has_chunks(self, table: SourceTable) -> bool:
        """Return whether the table has keys in an order that the source shares with the lake's readers."""
        ...

    def end_of_chunk(self, table: SourceTable, after: Key | None, rows: int) -> Key | None:
        """Return the key of the last of so many rows after ``after``; None: there are fewer than that left."""
        ...


class CaptureSession(Protocol):
    """What capture has done of the source: what it reads, how far it has come, and asking it to read rows again."""

    @property
    def log_reader(self) -> str:
        """What holds capture's place in the log, for people."""
        ...

    def captures(self) -> list[TableCapture]:
        """Return what becomes of each table of the captured schemas."""
        ...

    def why_left_out(self) -> dict[str, str]:
        """Return ``schema.table`` of every table that capture doesn't read, and the reason."""
        ...

    def exclude(self, schema: str, table: str, column: str | None, because: str) -> bool:
        """Have capture leave out a table, or a column of it, from now on; return whether it didn't."""
        ...

    def include(self, schema: str, table: str, column: str | None) -> bool:
        """Have capture take in again what was excluded; return whether it was."""
        ...

    def slot(self) -> SlotState | None:
        """Return what holds capture's place in the log; None: there is none."""
        ...

    def log_position(self) -> LogPosition:
        """Return where the log ends now."""
        ...

    def beat(self) -> None:
        """Commit a change of the heartbeat, which capture's place in the log then passes. Raises NotPrepared."""
        ...

    def unread_bytes(self, until: LogPosition) -> int | None:
        """Return how much of the log up to ``until`` isn't in Kafka; None: nothing holds capture's place."""
        ...

    def request_reread(self, table: SourceTable, within: KeyRange | None = None, at_once: bool = False) -> str:
        """Ask capture to read a table's rows again beside the stream of changes, and return the request's id.

        ``within``: rows of these keys only. ``at_once``: at one position, for which the stream of all tables waits. In
        the session's transaction, if it has one. A connector that doesn't run reads the request once it does.
        """
        ...

    def locked(self, table: SourceTable, seconds: float) -> AbstractContextManager[None]:
        """Keep a table as it is within the block: its writers wait, its readers don't.

        A moment without writers is waited for, so many seconds in all, and never so that they wait for this.
        """
        ...

    def open_rereads(self) -> list[Reread]:
        """Return the tables of which rows are to be read again, or looked at, because no event tells what changed."""
        ...

    def close_reread(self, reread: Reread, outcome: str) -> None:
        """Say what became of such a table."""
        ...

    def rereads_requested(self) -> int:
        """Return how many were ever asked for: who needs to know that no other one came between counts twice."""
        ...


class SourceSession(TableReader, CaptureSession, Protocol):
    """One connection to a source. Each statement is a transaction, except within :meth:`transaction`."""

    def __enter__(self) -> Self:
        """Return the session, which ends with the block."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Do all of a block or nothing. An error in it leaves a snapshot that is held as it was."""
        ...


class SourceDatabase(Protocol):
    """A source's database."""

    def connect(self) -> SourceSession:
        """Open a session. Raises SourceUnavailable."""
        ...


class SourceTopics(Protocol):
    """The names of a source's topics."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the topics of captured tables begin with."""
        ...

    @property
    def schema_topic(self) -> str:
        """The topic of the schema log."""
        ...

    @property
    def notifications(self) -> str:
        """The topic of what the connector says of its snapshots."""
        ...

    def topic(self, schema: str, name: str) -> str:
        """Return the topic of a table."""
        ...


class SourceEvents(Protocol):
    """What a source's decoded change events say, for who reads them without Spark. Pure.

    Neutral values: numbers and booleans as they are, decimals, UUIDs and timestamps with zone as text, dates as days
    and timestamps as microseconds since 1970, times of day as ``HH:MM:SS.ffffff``, bytes as bytes, lists of these.
    """

    def value(self, value: Any, avro: Any) -> Any:
        """Return the neutral form of a decoded value whose writer schema is ``avro``."""
        ...

    def log_position(self, source: Mapping[str, Any]) -> int:
        """Return the log position of an event, from what it says of its source."""
        ...

    def log_text(self, position: int) -> str:
        """Return a log position as the source prints it."""
        ...

    def transaction(self, source: Mapping[str, Any]) -> int | None:
        """Return the transaction of an event, as a snapshot knows it; None: it is of none."""
        ...
