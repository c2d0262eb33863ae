"""What capture asks of a source: preparing it, its connector's configuration, what becomes of each table, its log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import SecretStr


class Mode(StrEnum):
    """How a table reaches the lake."""

    KEYED = "keyed"
    WHOLE_ROWS = "by whole rows (REPLICA IDENTITY FULL)"
    INSERTS_ONLY = "inserts only"
    LEFT_OUT = "left out"


@dataclass(frozen=True)
class TableCapture:
    """What becomes of one table.

    ``reason`` says why it is left out, or what is unusual about it; ``without``, which columns of it are.
    """

    name: str
    mode: Mode
    reason: str | None = None
    without: str | None = None


@dataclass(frozen=True)
class LeftOut:
    """What the connector must not read, and whether it must escape the names of columns.

    It doesn't read whole tables, partitions (their partitioned table is read), generated columns, and ``columns`` that
    a person has excluded.
    """

    tables: frozenset[str]
    partitions: frozenset[str]
    generated: frozenset[str]
    escaped: bool = False
    columns: frozenset[str] = frozenset()

    def differs_from(self, told: "LeftOut") -> bool:
        """Return whether a connector that was ``told`` something else has to be told.

        Not for a new partition, which it gets nothing of anyway; but for one that is a table of its own now.
        """
        changed = (self.tables, self.escaped, self.columns) != (told.tables, told.escaped, told.columns)
        return changed or not told.partitions <= self.partitions


@dataclass(frozen=True)
class Exclusion:
    """A table (``schema.table``) that a person has excluded from capture, or one column of it."""

    table: str
    column: str | None
    because: str


@dataclass(frozen=True)
class LargeRow:
    """A row that is larger than a record may be. ``key``: of the row, as text, as far as it is known."""

    table: str
    key: Mapping[str, str]
    bytes: int


class Remedy(StrEnum):
    """What is done about a table whose rows changed, or may have, without events."""

    VERIFY = "verify"
    ROWS = "rows"
    TABLE = "table"


@dataclass(frozen=True)
class Reread:
    """A table whose rows changed, or may have, without events.

    ``why``: a clause, of which ``table`` is what is meant. ``how``: its rows were asked for already, or all of it is to
    be read again, since rows may be gone or have no key; or nobody knows, and it is to be compared.
    """

    id: int
    schema: str
    name: str
    how: Remedy
    why: str

    @property
    def table(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Readiness:
    """What a look at the source's tables found.

    ``mended``: how many tables were changed; ``left_out``: what the connector must not read now; ``rereads``: tables
    whose rows changed, or may have, without events, and aren't yet in the lake as they are.
    """

    mended: int
    left_out: LeftOut
    rereads: list[Reread]


@dataclass(frozen=True)
class SlotState:
    """The replication slot and the log that it holds back, in bytes. ``bound_bytes`` is None when nothing bounds it.

    ``oldest_transaction``: whose it is and for how long it has been open, where one that writes has been for a while:
    the slot waits for its end. Of other roles' sessions only who may monitor the server sees it.
    """

    active: bool
    log_status: str | None
    confirmed: str | None
    held_bytes: int
    bound_bytes: int | None
    oldest_transaction: str | None = None


@dataclass(frozen=True)
class LogState:
    """The source's side of the connector's place in its log. Log positions are numbers.

    ``system``: which database cluster this is; ``marks``: the marks that capture left last, the newest first;
    ``written``: the end of the log; ``confirmed``: up to where the slot has been read; ``held``: how many bytes of the
    log it holds back; ``reader``: the backend that sends the log, and ``sent``: up to where it has.
    """

    system: str
    marks: tuple[str | None, ...]
    written: int
    has_slot: bool
    log_status: str | None
    confirmed: int | None
    held: int = 0
    reader: int | None = None
    sent: int | None = None


@dataclass(frozen=True)
class ConnectorOptions:
    """What preparing a source and configuring its connector take besides the source's address.

    ``owner``: the role that may see capture's tables, mark a position and signal; ``password``: that of the role which
    the connector has; ``unavailable_value``: what stands for a value that the connector leaves out.
    """

    owner: str
    password: SecretStr
    registry_url: str
    unavailable_value: str
    topic_partitions: int


class SourceAdministrator(Protocol):
    """A source as its administrator sees it, who prepares it for capture. Every method raises SourceError."""

    def prepare(self) -> LeftOut:
        """Make the source ready for capture, and return what the connector must not read. Repeatable."""
        ...

    def keep_ready(self) -> Readiness:
        """Mend tables that aren't ready, and return what of the source there is to act upon."""
        ...

    def large_row(self, more_than: int) -> LargeRow | None:
        """Return a row that has more bytes than that, among those which the connector reads next; None: none is found.

        May take minutes.
        """
        ...

    def captures(self) -> list[TableCapture]:
        """Return what becomes of each table of the captured schemas."""
        ...

    def request_rereads(self, tables: Iterable[str]) -> None:
        """Ask the connector to copy these tables (``schema.table``) as they are now, beside the stream of changes."""
        ...

    def log_state(self) -> LogState:
        """Return what tells whether the connector can go on."""
        ...

    def leave_mark(self) -> tuple[str, str]:
        """Leave a random mark in the source, and return the cluster it was left in, and the mark."""
        ...

    def refusal(self) -> str | None:
        """Return why the source doesn't let the connector in, in its server's words; None: it does."""
        ...

    def drop_slot(self) -> bool:
        """Drop what holds the connector's place in the log, and return whether there was any."""
        ...

    def end_reader(self, reader: int) -> None:
        """End the backend that sends the log, if it still is this one."""
        ...

    def connector_config(self, excluded: LeftOut) -> dict[str, str]:
        """Return the connector's configuration, which holds no secret. Pure."""
        ...

    def newly_read(self, tables: Iterable[str], before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
        """Return which of ``tables`` a connector reads by the configuration ``now``, and not by ``before``. Pure."""
        ...

    def stored_position(self, offset: Mapping[str, Any] | None) -> int | None:
        """Return the log position in what the connector has stored, in its own words; None: there is none. Pure."""
        ...
