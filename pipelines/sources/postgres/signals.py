"""Signal the connector to read rows of the source again, beside the stream of changes.

A signal is a row of the source's signal table. The connector meets it in the log, reads the table chunk by chunk, and
puts what it read among the changes where it belongs: an incremental snapshot. Or it reads the table whole, while the
stream waits: a blocking snapshot, of which the order is known where nobody writes the table meanwhile.

Tables to be read again, since no event tells what changed, are written down by schema_log.sql.
"""

import json
import uuid

import psycopg

from pipelines.sources.base.capture import Remedy, Reread
from pipelines.sources.base.database import SourceAddress
from pipelines.sources.postgres.capture import SIGNAL_TABLE, collection
from pipelines.sources.postgres.connection import connect
from pipelines.sources.postgres.errors import translated


def ask_for_snapshot(connection: psycopg.Connection, schema: str, table: str, where: str | None = None) -> str:
    """Ask for an incremental snapshot of a captured table with a key, and return the signal's id.

    Notifications carry the id. ``where``: a condition in the source's SQL, for some of the rows only. The signal is
    written in the connection's transaction, if it has one; the role needs INSERT on the signal table. A connector that
    doesn't run reads the signal once it does.
    """
    name = collection(f"{schema}.{table}")
    data: dict[str, object] = {"type": "incremental", "data-collections": [name]}
    if where is not None:
        data["additional-conditions"] = [{"data-collection": name, "filter": where}]
    return _signal(connection, data)


def ask_for_blocking_snapshot(connection: psycopg.Connection, schema: str, table: str) -> str:
    """Ask for a snapshot of a captured table at one position, for which the stream waits; return the signal's id."""
    return _signal(connection, {"type": "blocking", "data-collections": [collection(f"{schema}.{table}")]})


def _signal(connection: psycopg.Connection, data: dict[str, object]) -> str:
    identifier = str(uuid.uuid4())
    connection.execute(
        f"INSERT INTO {SIGNAL_TABLE} (id, type, data) VALUES (%s, 'execute-snapshot', %s)".encode(),
        (identifier, json.dumps(data)),
    )
    return identifier


_OPEN = """
SELECT id, schema_name, table_name, how, why FROM lakehouse.rereads WHERE done_at IS NULL ORDER BY id"""
_CLOSE = "UPDATE lakehouse.rereads SET done_at = clock_timestamp(), outcome = %s WHERE id = %s AND done_at IS NULL"


def open_rereads(connection: psycopg.Connection) -> list[Reread]:
    """Return what is to be read again, or compared. A source that was prepared by an earlier release has nothing."""
    if connection.execute("SELECT to_regclass('lakehouse.rereads') IS NULL").fetchone() == (True,):
        return []
    found = connection.execute(_OPEN).fetchall()
    return [Reread(number, schema, table, Remedy(how), why) for number, schema, table, how, why in found]


@translated()
def rereads_wait(address: SourceAddress) -> bool:
    """Return whether any table is to be read again, or compared."""
    with connect(address) as connection:
        return bool(open_rereads(connection))


def close_reread(connection: psycopg.Connection, reread: Reread, outcome: str) -> None:
    """Say what became of it."""
    connection.execute(_CLOSE, (outcome, reread.id))


def asked_so_far(connection: psycopg.Connection) -> int:
    """Return how many snapshots were ever asked for: who needs to know that no other one came between counts twice."""
    query = f"SELECT count(*) FROM {SIGNAL_TABLE} WHERE type = 'execute-snapshot'"
    row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0
