"""A pinned table's rows in DuckDB: PyIceberg says which files and which deleted positions, DuckDB reads the Parquet.

DuckDB's own Iceberg reader (1.5.5) isn't used: on a table that the mirror had merged into many times it gave wrong
rows, where PyIceberg gave the source's (see infra/decisions). DuckDB's Parquet reader resolves columns by field id,
runs in parallel and keeps to the memory limit.
"""

import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from services.stack.duckdb_sql import literal
from services.stack.errors import CannotVerify
from services.stack.lake import LSN_COLUMN, PinnedTable

DELETED = "lake_deleted"
EVERY_FILE = AlwaysTrue()

_DUCKDB_TYPES: dict[type[IcebergType], str] = {
    BooleanType: "BOOLEAN", IntegerType: "INTEGER", LongType: "BIGINT", FloatType: "FLOAT", DoubleType: "DOUBLE",
    DateType: "DATE", TimestampType: "TIMESTAMP", TimestamptzType: "TIMESTAMP WITH TIME ZONE", StringType: "VARCHAR",
    UUIDType: "UUID", BinaryType: "BLOB",
}  # fmt: skip


def duckdb_type(kind: IcebergType) -> str:
    """Return the DuckDB type of an Iceberg type.

    For one that has none here, a name that nothing can be compared with.
    """
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, ListType):
        return f"{duckdb_type(kind.element_type)}[]"
    return _DUCKDB_TYPES.get(type(kind), f"iceberg {kind}")


def lake_types(pinned: PinnedTable) -> dict[str, str]:
    """Return column name to DuckDB type."""
    return {field.name: duckdb_type(field.field_type) for field in pinned.table.schema().fields}


def pinned_rows(
    connection: duckdb.DuckDBPyConnection,
    pinned: PinnedTable,
    names: Sequence[str],
    having: BooleanExpression = EVERY_FILE,
) -> str:
    """Return a DuckDB table expression of the pinned rows.

    Its columns are ``c0, c1, …`` in the order of ``names``, and ``lsn``.

    ``having``: files that can't hold a row for which this is true are left out; others come whole.
    Raises CannotVerify for a kind of delete file that the mirror never writes.
    """
    kinds = {field.name: field for field in pinned.table.schema().fields}
    columns = [(kinds[name].field_id, f"c{i}", duckdb_type(kinds[name].field_type)) for i, name in enumerate(names)]
    if LSN_COLUMN in kinds:
        columns.append((kinds[LSN_COLUMN].field_id, "lsn", "BIGINT"))
    outputs = ", ".join(alias for _, alias, _ in columns) + ("" if LSN_COLUMN in kinds else ", NULL::BIGINT AS lsn")
    tasks = []
    if pinned.snapshot_id is not None:
        tasks = list(pinned.table.scan(having, snapshot_id=pinned.snapshot_id).plan_files())
    if not tasks:
        empty = ", ".join(
            [*(f"NULL::{kind} AS {alias}" for _, alias, kind in columns if alias != "lsn"), "0::BIGINT AS lsn"]
        )
        return f"(SELECT {empty} WHERE false)"
    deletes = {file.file_path: file for task in tasks for file in task.delete_files}
    _stage_deleted(connection, pinned.table, list(deletes.values()))
    schema = ", ".join(f"{i}: {{name: '{a}', type: '{k}', default_value: NULL}}" for i, a, k in columns)
    paths = ", ".join(only(task.file.file_path) for task in tasks)
    rows = f"read_parquet([{paths}], schema = MAP {{{schema}}}, filename = true, file_row_number = true)"
    left = f"NOT EXISTS (SELECT 1 FROM {DELETED} d WHERE d.file = p.filename AND d.pos = p.file_row_number)"
    return f"(SELECT {outputs} FROM {rows} p{' WHERE ' + left if deletes else ''})"


def count_beyond(connection: duckdb.DuckDBPyConnection, pinned: PinnedTable, log_position: int) -> int:
    """Return how many of the pinned rows have a greater log position than that."""
    row = connection.execute(
        f"SELECT count(*) FROM {pinned_rows(connection, pinned, [])} WHERE lsn > {log_position:d}"
    ).fetchone()
    return int(row[0]) if row else 0


def only(path: str) -> str:
    """Return a path as DuckDB's literal of it, in which a table's name may have what it takes for a pattern."""
    return literal(re.sub(r"([*?\[])", r"[\1]", path))


def _stage_deleted(connection: duckdb.DuckDBPyConnection, table: Table, files: Sequence[DataFile]) -> None:
    """Fill the table DELETED: data file and position of each deleted row.

    A Puffin file may also hold a vector which a newer one has replaced. Vectors only grow, so reading both is right.
    """
    connection.execute(f"CREATE OR REPLACE TABLE {DELETED} (file VARCHAR, pos BIGINT)")
    for file in files:
        if file.content == DataFileContent.EQUALITY_DELETES:
            raise CannotVerify(f"{table.name()[-1]} has equality deletes ({file.file_path}), which verify doesn't read")
        if file.file_format == FileFormat.PARQUET:
            source = f"read_parquet({only(file.file_path)})"
            connection.execute(f"INSERT INTO {DELETED} SELECT file_path, pos FROM {source}")
            continue
        with table.io.new_input(file.file_path).open() as stream:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
        for vector in vectors:
            positions = pa.table({"pos": vector.to_vector()})
            connection.register("positions", positions)
            path = literal(vector.referenced_data_file)
            connection.execute(f"INSERT INTO {DELETED} SELECT {path}, pos FROM positions")
            connection.unregister("positions")
