"""Functions of DuckDB by which values are protected as they are on their way into the lake."""

from collections.abc import Callable

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from pipelines.protection.crypto import ProtectionKeys, Unreadable
from quality.protection import masked

HASH, TOKEN, MASK, READ = "protected_hash", "protected_token", "protected_mask", "protected_read"
UNREADABLE = "not readable with this key"


def register(connection: duckdb.DuckDBPyConnection, keys: ProtectionKeys | None) -> None:
    """Have ``connection`` know them; those that need keys only where there are ``keys``. Null stays null.

    READ takes an encrypted value and its place, and gives the hash of what it was.
    """
    _add(connection, MASK, masked)
    if keys is None:
        return
    _add(connection, HASH, keys.hashed)
    _add(connection, TOKEN, keys.tokenised)

    def read(values: pa.Array, places: pa.Array) -> pa.Array:
        pairs = zip(values.to_pylist(), places.to_pylist(), strict=True)
        return pa.array([None if value is None else _read(keys, value, place) for value, place in pairs], pa.string())

    _create(connection, READ, read, 2)


def _read(keys: ProtectionKeys, value: str, place: str) -> str:
    try:
        return keys.hashed(keys.decrypted(value, place))
    except Unreadable:
        return UNREADABLE


def _add(connection: duckdb.DuckDBPyConnection, name: str, function: Callable[[str], str]) -> None:
    def every(values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else function(value) for value in values.to_pylist()], pa.string())

    _create(connection, name, every, 1)


def _create(connection: duckdb.DuckDBPyConnection, name: str, function: Callable[..., pa.Array], count: int) -> None:
    connection.create_function(
        name, function, ["VARCHAR"] * count, "VARCHAR", type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )  # fmt: skip
