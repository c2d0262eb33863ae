"""Signal the connector to read rows of the source again, beside the stream of changes.

A signal is a row of the source's signal table. The connector meets it in the log, reads the table chunk by chunk, and
puts what it read among the changes where it belongs: an incremental snapshot.
"""

import json
import uuid

import psycopg

from pipelines.sources.postgres.capture import SIGNAL_TABLE, collection


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
    identifier = str(uuid.uuid4())
    connection.execute(
        f"INSERT INTO {SIGNAL_TABLE} (id, type, data) VALUES (%s, 'execute-snapshot', %s)".encode(),
        (identifier, json.dumps(data)),
    )
    return identifier


def asked_so_far(connection: psycopg.Connection) -> int:
    """Return how many snapshots were ever asked for: who needs to know that no other one came between counts twice."""
    query = f"SELECT count(*) FROM {SIGNAL_TABLE} WHERE type = 'execute-snapshot'"
    row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0
