"""Tables and columns that a person excludes from capture, so that what can't be mirrored doesn't stop the others.

They are rows of a table in the source: capture looks there every few seconds, and the schema log doesn't have them.
"""

import psycopg

from pipelines.sources.base.capture import Exclusion
from pipelines.sources.postgres.capture import EXCLUSIONS

_FIND = f"SELECT schema_name || '.' || table_name, nullif(column_name, ''), because FROM {EXCLUSIONS} ORDER BY 1, 2"
_ADD = f"""
INSERT INTO {EXCLUSIONS} (schema_name, table_name, column_name, because) VALUES (%s, %s, %s, %s)
ON CONFLICT DO NOTHING"""
_REMOVE = f"DELETE FROM {EXCLUSIONS} WHERE (schema_name, table_name, column_name) = (%s, %s, %s)"


def exclusions(connection: psycopg.Connection) -> list[Exclusion]:
    """Return what is excluded. A source that was prepared by an earlier release has nothing."""
    if connection.execute(f"SELECT to_regclass('{EXCLUSIONS}') IS NULL".encode()).fetchone() == (True,):
        return []
    return [Exclusion(*row) for row in connection.execute(_FIND.encode()).fetchall()]


def exclude(connection: psycopg.Connection, schema: str, table: str, column: str | None, because: str) -> bool:
    """Exclude a table, or a column of it; return whether it wasn't."""
    return connection.execute(_ADD.encode(), (schema, table, column or "", because)).rowcount > 0


def include(connection: psycopg.Connection, schema: str, table: str, column: str | None) -> bool:
    """Take a table in again, or a column of it; return whether it was excluded."""
    return connection.execute(_REMOVE.encode(), (schema, table, column or "")).rowcount > 0
