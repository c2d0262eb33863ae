"""Keep a table of the source as it is for a while."""

import psycopg
from psycopg import sql
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from pipelines.sources.base.tables import SourceTable
from pipelines.sources.postgres.reader import table_name


def lock(connection: psycopg.Connection, table: SourceTable, seconds: float) -> None:
    """Open a transaction during which nobody writes the table; who reads it doesn't wait.

    Others would wait behind a lock that is waited for, so it is waited for a second at a time, so many in all. Raises
    psycopg.errors.LockNotAvailable.
    """

    def attempt() -> None:
        connection.execute("BEGIN")
        try:
            connection.execute("SET LOCAL lock_timeout = '1s'")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            connection.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(table_name(table)))
        except psycopg.Error:
            connection.execute("ROLLBACK")
            raise

    Retrying(
        retry=retry_if_exception_type(psycopg.errors.LockNotAvailable), stop=stop_after_delay(seconds),
        wait=wait_random_exponential(0.5, max=10), reraise=True,
    )(attempt)  # fmt: skip
