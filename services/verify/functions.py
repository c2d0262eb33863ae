"""Functions of DuckDB by which values are protected as they are on their way into the lake."""

from collections.abc import Callable

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from pipelines.keys import Keys, Unreadable
from quality.protection import masked

HASH, TOKEN, MASK, READ = "protected_hash", "protected_token", "protected_mask", "protected_read"
UNREADABLE = "not readable with this key"


def register(connection: duckdb.DuckDBPyConnection, keys: Keys | None) -> None:
    """Have ``connection`` know them; those that need keys only where there are ``keys``. Null stays null.

    READ takes an encrypted value and its place, and gives the hash of what it was.
    """
    _add(connection, MASK, masked)
    if keys is None:
        return
    _add(connection, HASH, keys.hashed)
    _add(connection, TOKEN, keys.tokenised)

    def read(value: str, place: str) -> str:
        try:
            return keys.hashed(keys.decrypted(value, place))
        except Unreadable:
            return UNREADABLE

    _add(connection, READ, read, 2)


def _add(connection: duckdb.DuckDBPyConnection, name: str, function: Callable[..., str], parameters: int = 1) -> None:
    def every(*columns: pa.Array) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())

    connection.create_function(
        name, every, ["VARCHAR"] * parameters, "VARCHAR", type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )  # fmt: skip
