"""Preparing the source database, as its administrator."""

from dataclasses import dataclass

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential
from tenacity.nap import sleep_using_event

from pipelines.sources.postgres.capture import HEARTBEAT_TABLE, ROLE, SLOT, Capture, prepare_sql
from pipelines.sources.postgres.capture_tables import (
    LeftOut,
    Mode,
    classify,
    left_out,
    misnamed,
    read_names,
    read_states,
)
from pipelines.sources.postgres.signals import ask_for_snapshot
from services.capture.continuity import Mark, SourceNow
from services.capture.errors import NotReady, Refused
from services.capture.settings import APPLICATION, CaptureSettings
from services.postgres import said
from services.stopping import Stop

# A lock that isn't had in time is an OperationalError; so is a server that doesn't answer.
_PASSING = psycopg.OperationalError


@dataclass(frozen=True)
class Source:
    """The source database of these settings."""

    settings: CaptureSettings

    def prepare(self, stop: Stop, seconds: float = 120) -> LeftOut:
        """Make the source ready for capture; repeatable. Returns what the connector must not read.

        Raises NotReady when the source doesn't answer, or its tables stay locked, for so long; Refused when the
        administrator lacks a right.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(_PASSING), stop=stop_after_delay(seconds), wait=wait_exponential(0.25, max=5),
            sleep=sleep_using_event(stop.event), reraise=True,
        )  # fmt: skip
        try:
            return retrying(self._prepare)
        except _PASSING as error:
            raise NotReady(f"the source isn't ready: {said(error)}; see `make logs s=source-db`") from None
        except psycopg.Error as error:
            raise Refused(
                f"the source refuses to be prepared: {said(error)}; "
                "`python -m services.capture sql` prints what an administrator can run instead"
            ) from None

    def keep_ready(self) -> tuple[int, LeftOut]:
        """Mend what the event trigger couldn't have seen: how many tables were changed, and what is left out now.

        Raises NotReady; it is tried again soon.
        """
        try:
            with self._connect() as connection:
                connection.execute("SET lock_timeout = '2s'")
                row = connection.execute("SELECT lakehouse.prepare_tables(), lakehouse.log_schemas()").fetchone()
                return (row[0] if row else 0), self._left_out(connection)
        except psycopg.Error as error:
            raise NotReady(f"the source can't be looked after: {said(error)}; see `make logs s=source-db`") from None

    def snapshot_again(self, tables: frozenset[str]) -> None:
        """Ask the connector to copy these tables as they are now, beside the stream of changes. Raises NotReady."""
        try:
            with self._connect() as connection:
                for name in sorted(tables):
                    ask_for_snapshot(connection, *name.split(".", 1))
        except psycopg.Error as error:
            raise NotReady(f"the snapshot can't be asked for: {said(error)}; see `make logs s=source-db`") from None

    def tables(self) -> tuple[frozenset[str], frozenset[str]]:
        """The captured tables: those with a key, and those without. Raises NotReady."""
        try:
            with self._connect() as connection:
                states = read_states(connection, self.settings.schemas)
                unusable = misnamed(self.settings.source_name, read_names(connection, SLOT))
                found = [classify(s, unusable) for s in states if not s.is_partition]
        except psycopg.Error as error:
            raise NotReady(f"the source can't be looked at: {said(error)}; see `make logs s=source-db`") from None
        keyed = frozenset(table.name for table in found if table.mode is Mode.KEYED)
        return keyed, frozenset(table.name for table in found if table.mode is not Mode.LEFT_OUT) - keyed

    def look(self) -> SourceNow:
        """What tells whether the connector can go on. Raises NotReady."""
        try:
            with self._connect() as connection:
                row = connection.execute(_LOOK, (SLOT,)).fetchone()
        except psycopg.Error as error:
            raise NotReady(f"the source can't be looked at: {said(error)}; see `make logs s=source-db`") from None
        assert row is not None
        system, *marks, written, has_slot, wal_status, confirmed, held, reader, sent = row
        return SourceNow(system, tuple(marks), written, has_slot, wal_status, confirmed, held, reader, sent)

    def leave_mark(self) -> Mark:
        """Leave a mark in the source; it is there when this returns. Raises NotReady."""
        try:
            with self._connect() as connection:
                row = connection.execute(_MARK).fetchone()
        except psycopg.Error as error:
            raise NotReady(f"no mark can be left in the source: {said(error)}; see `make logs s=source-db`") from None
        assert row is not None
        return Mark(system=row[0], mark=row[1])

    def drop_slot(self) -> bool:
        """Drop the slot, if there is one; whether there was. Raises NotReady while somebody reads it."""
        try:
            with self._connect() as connection:
                dropped = connection.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (SLOT,)
                ).fetchall()
        except psycopg.Error as error:
            raise NotReady(f"the slot can't be dropped: {said(error)}; see `make logs s=source-db`") from None
        return bool(dropped)

    def part_with(self, reader: int) -> None:
        """End the backend that sends the log to a task which no longer takes it, so that another one can have the slot.

        Raises NotReady.
        """
        try:
            with self._connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                    " WHERE slot_name = %s AND active_pid = %s", (SLOT, reader),
                )  # fmt: skip
        except psycopg.Error as error:
            raise NotReady(f"the slot can't be freed: {said(error)}; see `make logs s=source-db`") from None

    def capture(self, excluded: LeftOut) -> Capture:
        """What the connector is told."""
        settings = self.settings
        return Capture(
            host=settings.source_db_host, port=settings.source_db_port, database=settings.source_db_name,
            source_name=settings.source_name, schemas=settings.schemas, registry_url=settings.registry_native_url,
            unavailable_value=settings.unavailable_value, topic_partitions=settings.table_topic_partitions,
            left_out=tuple(excluded.tables | excluded.partitions), generated=tuple(excluded.generated),
            escaped=excluded.escaped,
        )  # fmt: skip

    def _prepare(self) -> LeftOut:
        settings = self.settings
        with self._connect() as connection:
            # Only the verifier leaves this process, so that no log of the source's statements can hold the password.
            password = settings.debezium_password.get_secret_value().encode()
            verifier = connection.pgconn.encrypt_password(password, ROLE.encode(), b"scram-sha-256").decode()
            script = prepare_sql(settings.schemas, password=verifier, owner=settings.source_db_owner)
            connection.execute(script.encode())
            return self._left_out(connection)

    def _left_out(self, connection: psycopg.Connection) -> LeftOut:
        states, names = read_states(connection, self.settings.schemas), read_names(connection, SLOT)
        return left_out(self.settings.source_name, states, names)

    def _connect(self) -> psycopg.Connection:
        settings = self.settings
        conninfo = settings.conninfo(settings.source_db_admin_user, settings.source_db_admin_password, APPLICATION)
        return psycopg.connect(conninfo, autocommit=True)


_MARK = f"""
UPDATE {HEARTBEAT_TABLE} SET mark_before = mark, mark = gen_random_uuid()
RETURNING (SELECT system_identifier::text FROM pg_control_system()), mark::text""".encode()
_LOOK = f"""
SELECT (SELECT system_identifier::text FROM pg_control_system()), b.mark::text, b.mark_before::text,
       (pg_current_wal_insert_lsn() - '0/0')::bigint, s.slot_name IS NOT NULL, s.wal_status,
       (s.confirmed_flush_lsn - '0/0')::bigint, coalesce(pg_current_wal_lsn() - s.restart_lsn, 0)::bigint,
       s.active_pid, (r.sent_lsn - '0/0')::bigint
FROM {HEARTBEAT_TABLE} b LEFT JOIN pg_replication_slots s ON s.slot_name = %s
LEFT JOIN pg_stat_replication r ON r.pid = s.active_pid AND r.state <> 'startup'""".encode()
