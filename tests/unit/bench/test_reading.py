"""A table's rows as DuckDB reads them from its files, with the deletes that apply to each."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField

from tests.bench.reading import Files, rows

ROWS = "SELECT id::INT AS id, '{}' AS note FROM range(3) t(id)"
TABLE: Any = SimpleNamespace(schema=lambda: Schema(NestedField(1, "id", IntegerType())))


def _written(folder: Path, name: str, content: DataFileContent, sql: str) -> DataFile:
    path = folder / f"{name}.parquet"
    duckdb.execute(f"COPY ({sql}) TO '{path}'")
    key = [1] if content == DataFileContent.EQUALITY_DELETES else None
    return DataFile.from_args(content=content, file_path=str(path), file_format=FileFormat.PARQUET, partition=Record(),
                              record_count=1, file_size_in_bytes=path.stat().st_size, equality_ids=key)  # fmt: skip


def _read(files: Files) -> list[tuple[int, str]]:
    connection = duckdb.connect()
    found = connection.execute(f"SELECT id, note FROM {rows(connection, TABLE, files, ['id', 'note'])} ORDER BY ALL")
    return found.fetchall()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files([
        (_written(tmp_path, name, DataFileContent.DATA, ROWS.format(name)), seq)
        for seq, name in enumerate(("first", "second", "third"), 1)
    ])  # fmt: skip


ALL = [(id, note) for id in range(3) for note in ("first", "second", "third")]


def test_rows_without_deletes(files: Files) -> None:
    assert _read(files) == ALL
    assert _read(Files()) == []


def test_a_position_is_gone_from_its_file_alone(files: Files, tmp_path: Path) -> None:
    gone = f"SELECT '{files.data[1][0].file_path}' AS file_path, 2::BIGINT AS pos"
    files.positions.append((_written(tmp_path, "gone", DataFileContent.POSITION_DELETES, gone), 4))
    assert _read(files) == [row for row in ALL if row != (2, "second")]


def test_a_key_is_gone_from_older_files(files: Files, tmp_path: Path) -> None:
    files.equality.append((_written(tmp_path, "gone", DataFileContent.EQUALITY_DELETES, "SELECT 1::INT AS id"), 3))
    assert _read(files) == [row for row in ALL if row not in ((1, "first"), (1, "second"))]


def test_both_kinds_of_deletes(files: Files, tmp_path: Path) -> None:
    gone = f"SELECT '{files.data[2][0].file_path}' AS file_path, 0::BIGINT AS pos"
    files.positions.append((_written(tmp_path, "gone", DataFileContent.POSITION_DELETES, gone), 4))
    files.equality.append((_written(tmp_path, "keys", DataFileContent.EQUALITY_DELETES, "SELECT 1::INT AS id"), 2))
    assert _read(files) == [row for row in ALL if row not in ((0, "third"), (1, "first"))]
