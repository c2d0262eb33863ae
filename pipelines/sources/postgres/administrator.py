"""PostgreSQL as its administrator sees it: preparing it for capture, and looking after the replication slot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from pipelines.sources.base.capture import ConnectorOptions, LargeRow, LeftOut, LogState, Readiness, TableCapture
from pipelines.sources.base.database import SourceAddress
from pipelines.sources.postgres import large_rows
from pipelines.sources.postgres.capture import (
    GIVE_WAY,
    HEARTBEAT_TABLE,
    ROLE,
    SLOT,
    Capture,
    connector_config,
    prepare_sql,
    taken_in,
)
from pipelines.sources.postgres.capture_tables import left_out, read_captures, read_names, read_states
from pipelines.sources.postgres.connection import connect, try_logins
from pipelines.sources.postgres.errors import said, translated
from pipelines.sources.postgres.exclusions import exclusions
from pipelines.sources.postgres.signals import ask_for_snapshot, open_rereads

_MARK = f"""
UPDATE {HEARTBEAT_TABLE} SET mark_before = mark, mark = gen_random_uuid()
RETURNING (SELECT system_identifier::text FROM pg_control_system()), mark::text""".encode()
_LOG_STATE = f"""
SELECT (SELECT system_identifier::text FROM pg_control_system()), b.mark::text, b.mark_before::text,
       (pg_current_wal_insert_lsn() - '0/0')::bigint, s.slot_name IS NOT NULL, s.wal_status,
       (s.confirmed_flush_lsn - '0/0')::bigint, coalesce(pg_current_wal_lsn() - s.restart_lsn, 0)::bigint,
       s.active_pid, (r.sent_lsn - '0/0')::bigint
FROM {HEARTBEAT_TABLE} b LEFT JOIN pg_replication_slots s ON s.slot_name = %s
LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid AND r.state <> 'startup'""".encode()
_DROP_SLOT = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
_END_READER = """
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active_pid = %s"""


@dataclass(frozen=True)
class PostgresAdministrator:
    """A :class:`pipelines.sources.base.capture.SourceAdministrator`. Each look is a connection of its own."""

    address: SourceAddress
    options: ConnectorOptions

    @translated()
    def prepare(self) -> LeftOut:
        """Make the source ready for capture, and return what the connector must not read. Repeatable."""
        with connect(self.address) as connection:
            # Only the verifier leaves this process, so that no log of the source's statements can hold the password.
            password = self.options.password.get_secret_value().encode()
            verifier = connection.pgconn.encrypt_password(password, ROLE.encode(), b"scram-sha-256").decode()
            script = prepare_sql(self.address.schemas, password=verifier, owner=self.options.owner)
            connection.execute(script.encode())
            return self._left_out(connection)

    @translated()
    def keep_ready(self) -> Readiness:
        """Mend what the event trigger couldn't have seen, and return what of the source there is to act upon."""
        with connect(self.address) as connection:
            connection.execute(GIVE_WAY)
            # Two transactions: each holds what the other doesn't need.
            row = connection.execute("SELECT lakehouse.prepare_tables()").fetchone()
            connection.execute("SELECT lakehouse.log_schemas()")
            return Readiness(row[0] if row else 0, self._left_out(connection), open_rereads(connection))

    @translated()
    def large_row(self, more_than: int) -> LargeRow | None:
        """Return a row that has more bytes than that, in the slot's log or in a table; None: none is found."""
        with connect(self.address) as connection:
            return large_rows.find(connection, more_than)

    @translated()
    def captures(self) -> list[TableCapture]:
        """Return what becomes of each table of the captured schemas."""
        with connect(self.address) as connection:
            return read_captures(connection, self.address.name, self.address.schemas)

    @translated()
    def request_rereads(self, tables: Iterable[str]) -> None:
        """Ask the connector to copy these tables (``schema.table``) as they are now, beside the stream of changes."""
        with connect(self.address) as connection:
            for name in sorted(tables):
                ask_for_snapshot(connection, *name.split(".", 1))

    @translated()
    def log_state(self) -> LogState:
        """Return what tells whether the connector can go on."""
        with connect(self.address) as connection:
            row = connection.execute(_LOG_STATE, (SLOT,)).fetchone()
        assert row is not None
        system, mark, mark_before, *rest = row
        return LogState(system, (mark, mark_before), *rest)

    @translated()
    def leave_mark(self) -> tuple[str, str]:
        """Leave a mark in the heartbeat's row, and return the cluster it was left in, and the mark."""
        with connect(self.address) as connection:
            row = connection.execute(_MARK).fetchone()
        assert row is not None
        return row[0], row[1]

    def refusal(self) -> str | None:
        """Return why the source doesn't let the connector in, in its server's words; None: it does."""
        try:
            try_logins(self.address, ROLE, self.options.password)
        except psycopg.OperationalError as error:
            return said(error)
        return None

    @translated()
    def drop_slot(self) -> bool:
        """Drop the slot, if there is one; whether there was. Raises SourceUnavailable while somebody reads it."""
        with connect(self.address) as connection:
            return bool(connection.execute(_DROP_SLOT, (SLOT,)).fetchall())

    @translated()
    def end_reader(self, reader: int) -> None:
        """End the backend that sends the slot's log, if it still is this one."""
        with connect(self.address) as connection:
            connection.execute(_END_READER, (SLOT, reader))

    def connector_config(self, excluded: LeftOut) -> dict[str, str]:
        """Return the connector's configuration, which holds no secret. Pure."""
        address, options = self.address, self.options
        columns = excluded.generated | excluded.columns
        return connector_config(
            Capture(
                host=address.host, port=address.port, database=address.database, source_name=address.name,
                schemas=address.schemas, registry_url=options.registry_url,
                unavailable_value=options.unavailable_value, topic_partitions=options.topic_partitions,
                left_out=tuple(excluded.tables | excluded.partitions), excluded=tuple(columns),
                escaped=excluded.escaped,
            )
        )  # fmt: skip

    def newly_read(self, tables: Iterable[str], before: Mapping[str, str], now: Mapping[str, str]) -> frozenset[str]:
        """Return which of ``tables`` a connector reads by the configuration ``now``, and not by ``before``. Pure."""
        return taken_in(tables, before, now)

    def stored_position(self, offset: Mapping[str, Any] | None) -> int | None:
        """Return the log position in what the connector has stored, in its own words; None: there is none. Pure."""
        names = ("lsn", "lsn_proc", "lsn_commit")
        return max((int(value) for name, value in (offset or {}).items() if name in names and value), default=None)

    def _left_out(self, connection: psycopg.Connection) -> LeftOut:
        states, names = read_states(connection, self.address.schemas), read_names(connection, SLOT)
        return left_out(self.address.name, states, names, exclusions(connection))
