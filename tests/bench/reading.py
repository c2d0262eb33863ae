"""A table's rows in DuckDB, whoever wrote it: data files less position deletes, deletion vectors and equality deletes.

PyIceberg says which files there are; it reads no equality deletes itself, and DuckDB's own Iceberg reader isn't used
for the reason in services/stack/lake_files.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from services.stack.duckdb_sql import literal, quote


@dataclass
class Files:
    """The files of a snapshot, each with its sequence number, on which what a delete applies to depends."""

    data: list[tuple[DataFile, int]] = field(default_factory=list)
    positions: list[tuple[DataFile, int]] = field(default_factory=list)
    equality: list[tuple[DataFile, int]] = field(default_factory=list)

    @property
    def data_bytes(self) -> int:
        """Of the data files."""
        return sum(file.file_size_in_bytes for file, _ in self.data)

    @property
    def deletes(self) -> int:
        """Entries of all delete files."""
        return sum(file.record_count for file, _ in (*self.positions, *self.equality))


def current_files(table: Table) -> Files:
    """Of the current snapshot."""
    found = Files()
    snapshot = table.current_snapshot()
    lists = {
        DataFileContent.DATA: found.data,
        DataFileContent.POSITION_DELETES: found.positions,
        DataFileContent.EQUALITY_DELETES: found.equality,
    }
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        # As engines do: a manifest of nothing but what is gone isn't opened.
        if not (manifest.has_added_files() or manifest.has_existing_files()):
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            lists[entry.data_file.content].append((entry.data_file, entry.sequence_number or 0))
    return found


def rows(connection: duckdb.DuckDBPyConnection, table: Table, files: Files, names: Sequence[str]) -> str:
    """A table expression of the columns ``names``. It stages deletes in tables of the connection first. As engines do,
    only files that deletes apply to are read against them.
    """
    if not files.data:
        return f"(SELECT {', '.join(f'NULL AS {quote(name)}' for name in names)} WHERE false)"
    conditions, gone = [], set()
    if files.positions:
        _stage_positions(connection, table, [file for file, _ in files.positions])
        gone = {path for (path,) in connection.execute("SELECT DISTINCT file FROM gone_positions").fetchall()}
        conditions.append(
            "NOT EXISTS (SELECT 1 FROM gone_positions d WHERE d.file = p.filename AND d.pos = p.file_row_number)"
        )
    for number, (key, deletes) in enumerate(_by_key(table, files.equality).items()):
        _stage_equality(connection, f"gone_keys_{number}", ", ".join(map(quote, key)), deletes)
        same = " AND ".join(f"e.{quote(name)} IS NOT DISTINCT FROM p.{quote(name)}" for name in key)
        conditions.append(f"NOT EXISTS (SELECT 1 FROM gone_keys_{number} e WHERE {same} AND e.seq > f.seq)")
    newest = max((seq for _, seq in files.equality), default=0)
    touched = {file.file_path: seq for file, seq in files.data if file.file_path in gone or seq < newest}
    whole = [file.file_path for file, _ in files.data if file.file_path not in touched]
    columns = ", ".join(f"p.{quote(name)}" for name in names)
    parts = [f"SELECT {columns} FROM read_parquet([{', '.join(map(literal, whole))}]) p"] if whole else []
    if touched:
        paths = ", ".join(map(literal, touched))
        source = f"read_parquet([{paths}], filename = true, file_row_number = true) p"
        if files.equality:
            _stage_sequence(connection, touched)
            source += " JOIN data_files f ON f.file = p.filename"
        parts.append(f"SELECT {columns} FROM {source} WHERE {' AND '.join(conditions)}")
    return f"({' UNION ALL '.join(parts)})"


def _stage_sequence(connection: duckdb.DuckDBPyConnection, files: Mapping[str, int]) -> None:
    connection.register("incoming", pa.table({"file": list(files), "seq": list(files.values())}))
    connection.execute("CREATE OR REPLACE TABLE data_files AS SELECT * FROM incoming")
    connection.unregister("incoming")


def _by_key(table: Table, deletes: Iterable[tuple[DataFile, int]]) -> dict[tuple[str, ...], list[tuple[DataFile, int]]]:
    found: dict[tuple[str, ...], list[tuple[DataFile, int]]] = {}
    for file, seq in deletes:
        key = tuple(table.schema().find_column_name(number) or "" for number in file.equality_ids or ())
        found.setdefault(key, []).append((file, seq))
    return found


def _stage_equality(
    connection: duckdb.DuckDBPyConnection, name: str, columns: str, deletes: list[tuple[DataFile, int]]
) -> None:
    """A key and the newest sequence number at which it was deleted: of older files, its rows are gone."""
    sequence = pa.table({"file": [f.file_path for f, _ in deletes], "seq": [seq for _, seq in deletes]})
    connection.register("incoming", sequence)
    paths = ", ".join(literal(file.file_path) for file, _ in deletes)
    connection.execute(
        f"CREATE OR REPLACE TABLE {name} AS SELECT {columns}, max(i.seq) AS seq"
        f" FROM read_parquet([{paths}], filename = true) d JOIN incoming i ON i.file = d.filename GROUP BY {columns}"
    )
    connection.unregister("incoming")


def _stage_positions(connection: duckdb.DuckDBPyConnection, table: Table, deletes: list[DataFile]) -> None:
    connection.execute("CREATE OR REPLACE TABLE gone_positions (file VARCHAR, pos BIGINT)")
    for path in dict.fromkeys(file.file_path for file in deletes if file.file_format == FileFormat.PUFFIN):
        with table.io.new_input(path).open() as stream:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
        for vector in vectors:
            connection.register("incoming", pa.table({"pos": vector.to_vector()}))
            of = literal(vector.referenced_data_file)
            connection.execute(f"INSERT INTO gone_positions SELECT {of}, pos FROM incoming")
            connection.unregister("incoming")
    if paths := [literal(file.file_path) for file in deletes if file.file_format == FileFormat.PARQUET]:
        connection.execute(f"INSERT INTO gone_positions SELECT file_path, pos FROM read_parquet([{', '.join(paths)}])")
