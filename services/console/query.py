"""Run one query over the lake, by DuckDB, with the keys of the role that somebody reads as."""

import re
import threading
import time
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from services.console.settings import ConsoleSettings
from services.stack.duckdb_session import load_extension, s3_secret
from services.stack.duckdb_sql import literal

MOST_ROWS, SECONDS, MEMORY = 1_000, 20.0, "384MB"
# What may be asked; all else writes, or looks where it shouldn't.
READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_SECRETS = re.compile(r"duckdb_secrets|which_secret|duckdb_settings|current_setting|getenv", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """What came of a query. ``more``: there are more rows than these. ``error``: why there is no answer."""

    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    more: bool = False
    seconds: float = 0.0
    error: str | None = None
    reads_as: str = field(default="")


def run(settings: ConsoleSettings, role: str, sql: str, rows: int = MOST_ROWS, seconds: float = SECONDS) -> Answer:
    """Return the first so many rows, after so many seconds at most. Raises nothing of the query's own."""
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        try:
            connection = _connect(settings, role, folder)
        except duckdb.Error as error:
            return Answer(error=f"the lake can't be opened: {_first(error)}", reads_as=role)
        with connection:
            timer = threading.Timer(seconds, connection.interrupt)
            timer.start()
            try:
                _check(connection, sql)
                done = connection.execute(sql)
                columns = done.description or []
                found = done.fetchmany(rows + 1)
            except duckdb.InterruptException:
                return Answer(error=f"it took more than {seconds:.0f} s, and was stopped", reads_as=role)
            except (duckdb.Error, ValueError) as error:
                return Answer(error=_told(_first(error), role), seconds=time.monotonic() - began, reads_as=role)
            finally:
                timer.cancel()
    return Answer(
        tuple(str(column[0]) for column in columns), tuple(str(column[1]) for column in columns), tuple(found[:rows]),
        len(found) > rows, time.monotonic() - began, reads_as=role,
    )  # fmt: skip


def _connect(settings: ConsoleSettings, role: str, folder: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={
        "memory_limit": MEMORY, "threads": "2", "temp_directory": folder, "max_temp_directory_size": "1GB",
        "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
        "extension_directory": folder, "allow_unredacted_secrets": "false", "allow_community_extensions": "false",
    })  # fmt: skip
    for name in ("httpfs", "avro", "iceberg"):
        load_extension(connection, name)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    keys = (getattr(settings, f"{role}_s3_{part}_key") for part in ("access", "secret"))
    connection.execute(s3_secret(settings, *keys))
    connection.execute(
        f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT {literal(settings.catalog_uri)}, AUTHORIZATION_TYPE 'none',"
        " ACCESS_DELEGATION_MODE 'none', READ_ONLY)"
    )
    # From here on nothing can be read but the lake's files, and nothing of this can be undone.
    connection.execute("SET disabled_filesystems = 'LocalFileSystem,HTTPFileSystem,HuggingFaceFileSystem'")
    connection.execute("SET lock_configuration = true")
    return connection


def _check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ValueError for what isn't one query that reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise ValueError("one query at a time" if statements else "there is no query")
    if statements[0].type not in READS or _SECRETS.search(sql):
        raise ValueError("only queries that read tables: SELECT, WITH, EXPLAIN, DESCRIBE, SHOW")


def _first(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:500]


def _told(said: str, role: str) -> str:
    if "403" in said or "Forbidden" in said or "AccessDenied" in said:
        return f"the role {role}, as which you read, may not read this table"
    return said
