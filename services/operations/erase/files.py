"""What is below a table's folder, whether a snapshot knows it or not, and which data files hold a row."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from services.operations.erase.subject import Subject
from services.stack.lake_files import only
from services.stack.progress import OnProgress, Progress

AT_ONCE = 100


@dataclass(frozen=True)
class Stored:
    """An object. ``since``: when it was written."""

    path: str
    since: datetime


def below(store: S3FileSystem, table: Table, folder: str) -> list[Stored]:
    """Return the objects of a folder (``data``, ``metadata``) of a table's own."""
    root = f"{table.location().removeprefix('s3://')}/{folder}"
    found = store.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    return [
        Stored(f"s3://{info.path}", info.mtime or datetime.now(UTC)) for info in found if info.type == FileType.File
    ]


def holding(
    connection: duckdb.DuckDBPyConnection, subject: Subject, files: Sequence[Stored], on_progress: OnProgress
) -> list[Stored]:
    """Return a table's data files in which the subject's rows are, deleted ones included. Reads all of them."""
    schema, condition = subject.in_files()
    by_path, held, read = {file.path: file for file in files}, [], 0
    for some in _batches(file.path for file in files if file.path.endswith(".parquet")):
        paths = ", ".join(only(path) for path in some)
        rows = connection.execute(
            f"SELECT DISTINCT filename FROM read_parquet([{paths}], schema = {schema}, filename = true)"
            f" WHERE {condition}"
        ).fetchall()
        held += [by_path[path] for (path,) in rows]
        read += len(some)
        on_progress(Progress(subject.table.full_name, "reading files", read, len(files)))
    return held


def known(table: Table) -> set[str]:
    """Return the data files and delete files of a table's current snapshot."""
    return {str(row["file_path"]) for row in table.inspect.files().select(["file_path"]).to_pylist()}


def count_gone_files(table: Table) -> int:
    """Return how many files that are gone the current snapshot's manifests still tell of.

    They do so with their columns' extremes.
    """
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else sum(
        entry.status == ManifestEntryStatus.DELETED
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    )  # fmt: skip


def _batches(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    items = list(paths)
    for start in range(0, len(items), AT_ONCE):
        yield tuple(items[start : start + AT_ONCE])
