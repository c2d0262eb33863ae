"""PostgreSQL's log: where it ends, the heartbeat that moves the slot, and how far the slot has come."""

import psycopg
from psycopg import sql

from pipelines.sources.base.database import LogPosition
from pipelines.sources.base.errors import NotPrepared
from pipelines.sources.postgres.capture import SLOT
from pipelines.sources.postgres.errors import KIND

_POSITION = """
SELECT lsn::text, (lsn - '0/0')::bigint, clock_timestamp() FROM pg_current_wal_insert_lsn() AS lsn"""

_HEARTBEAT_COLUMN = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass('lakehouse.heartbeat') AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum LIMIT 1"""

_SLOT_LAG = """
SELECT greatest(0, pg_wal_lsn_diff(%s::pg_lsn, confirmed_flush_lsn))::bigint
FROM pg_replication_slots WHERE slot_name = %s AND confirmed_flush_lsn IS NOT NULL"""


def log_position(connection: psycopg.Connection) -> LogPosition:
    """Return where the log ends now."""
    row = connection.execute(_POSITION).fetchone()
    assert row is not None
    return LogPosition(*row)


def beat(connection: psycopg.Connection) -> None:
    """Commit a change of the heartbeat table. An update to the same values is as much of a log record as any."""
    see = "capture hasn't prepared the source; see `make logs s=capture`"
    try:
        column = connection.execute(_HEARTBEAT_COLUMN).fetchone()
        if column is None:
            raise NotPrepared(KIND, f"the source has no table lakehouse.heartbeat: {see}")
        update = sql.SQL("UPDATE lakehouse.heartbeat SET {0} = {0}").format(sql.Identifier(column[0]))
        if connection.execute(update).rowcount == 0:
            raise NotPrepared(KIND, f"lakehouse.heartbeat has no row: {see}")
    except psycopg.errors.InsufficientPrivilege as error:
        reason = error.diag.message_primary
        raise NotPrepared(KIND, f"the role shop may not update lakehouse.heartbeat ({reason})") from None


def slot_lag(connection: psycopg.Connection, position: LogPosition) -> int | None:
    """Return the bytes of the log up to ``position`` that Kafka hasn't acknowledged; None while there is no slot."""
    row = connection.execute(_SLOT_LAG, (position.text, SLOT)).fetchone()
    return None if row is None else int(row[0])
