"""A DuckDB that can read the lake's files and knows how values are protected."""

import importlib.util
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
from pydantic import SecretStr

from services.stack import duckdb_functions
from services.stack.duckdb_sql import literal
from services.stack.endpoints import StackSettings


def open_duckdb(settings: StackSettings, directory: Path, memory: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with the keys to the lake's files; ``memory`` bounds it, and ``directory`` takes what doesn't fit.

    The extension comes from its Python package: nothing is fetched. Secrets stay in this connection's memory.
    """
    connection = duckdb.connect(
        str(directory / "verify.duckdb"),
        config={
            "memory_limit": memory, "temp_directory": str(directory / "spill"), "preserve_insertion_order": "false",
            "threads": "2", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
            "extension_directory": str(directory / "extensions"),
        },
    )  # fmt: skip
    load_extension(connection, "httpfs")
    connection.execute("SET TimeZone = 'UTC'")
    duckdb_functions.register(connection, settings.protection_keys)
    connection.execute("SET enable_progress_bar = false")
    connection.execute(s3_secret(settings, settings.operator_s3_access_key, settings.operator_s3_secret_key))
    return connection


def load_extension(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Load an extension that a Python package has. Raises ModuleNotFoundError."""
    connection.execute(f"LOAD {literal(str(_extension(name, connection)))}")


def s3_secret(settings: StackSettings, access_key: SecretStr, secret_key: SecretStr) -> str:
    """Return the statement that gives a connection keys to the lake's files."""
    endpoint = urlsplit(settings.s3_endpoint)
    return (
        f"CREATE SECRET lake (TYPE s3, KEY_ID {literal(access_key.get_secret_value())},"
        f" SECRET {literal(secret_key.get_secret_value())}, ENDPOINT {literal(endpoint.netloc)},"
        f" URL_STYLE 'path', USE_SSL {str(endpoint.scheme == 'https').lower()}, REGION {literal(settings.s3_region)})"
    )


def _extension(name: str, connection: duckdb.DuckDBPyConnection) -> Path:
    row = connection.execute("PRAGMA version").fetchone()
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if row is None or spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"duckdb-extension-{name}")
    return Path(spec.origin).parent / "extensions" / str(row[0]) / f"{name}.duckdb_extension"
