"""The lake as somebody else sees it: what each commit added, and when that became visible to PyIceberg."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import SNAPSHOT_LOADING_MODE
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

LSN = "_lsn"
Identifier = tuple[str, str]


def as_of(table: Table, snapshot: int) -> Table:
    """The table as it was with that snapshot, for a reader."""
    metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


@dataclass
class Written:
    """What commits have written since they were watched. Bytes. ``rewritten_bytes``: of those that changed no row."""

    snapshots: int = 0
    data_bytes: int = 0
    delete_bytes: int = 0
    rewritten_bytes: int = 0
    data_files: int = 0
    delete_files: int = 0

    @property
    def total(self) -> int:
        """Of data and deletes."""
        return self.data_bytes + self.delete_bytes


@dataclass
class Watcher:
    """Follows the tables of one system from commit to commit. ``tables``: the source's table to the lake's."""

    catalog: Catalog
    tables: dict[str, Identifier]
    written: Written = field(default_factory=Written)
    _seen: dict[Identifier, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # To see whether there is anything new its history needn't be read, which grows with every commit.
        self._newest = load_catalog("newest", **{**self.catalog.properties, SNAPSHOT_LOADING_MODE: "refs"})

    def load(self, table: str) -> Table | None:
        """The lake's table, or None while there is none."""
        return _load(self.catalog, self.tables[table])

    def snapshots(self) -> dict[str, int]:
        """Source table to the current snapshot of the lake's, where it has one."""
        loaded = {name: _load(self._newest, identifier) for name, identifier in self.tables.items()}
        ids = {name: table.metadata.current_snapshot_id for name, table in loaded.items() if table is not None}
        return {name: snapshot for name, snapshot in ids.items() if snapshot is not None}

    def look(self) -> dict[str, tuple[Table, list[DataFile]]]:
        """Source table to the data files that commits have added since the last look."""
        added = {}
        for name, identifier in self.tables.items():
            seen, newest = self._seen.setdefault(identifier, set()), _load(self._newest, identifier)
            if newest is None or newest.metadata.current_snapshot_id in seen:
                continue
            table = self.load(name)
            if table is None:
                continue
            fresh = [snapshot for snapshot in table.snapshots() if snapshot.snapshot_id not in seen]
            files = [file for snapshot in fresh for file in self._added(table, snapshot)]
            seen |= {snapshot.snapshot_id for snapshot in fresh}
            if files:
                added[name] = (table, files)
        return added

    def _added(self, table: Table, snapshot: Snapshot) -> Iterable[DataFile]:
        self.written.snapshots += 1
        vectors: set[str] = set()
        replaced = snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.status != ManifestEntryStatus.ADDED or entry.snapshot_id != snapshot.snapshot_id:
                    continue
                size = entry.data_file.file_size_in_bytes
                if replaced:
                    self.written.rewritten_bytes += size
                if entry.data_file.content == DataFileContent.DATA:
                    self.written.data_files += 1
                    self.written.data_bytes += size
                    yield entry.data_file
                elif entry.data_file.file_path not in vectors:
                    # One file may hold the deletion vectors of many data files.
                    vectors.add(entry.data_file.file_path)
                    self.written.delete_files += 1
                    self.written.delete_bytes += size


def _load(catalog: Catalog, identifier: Identifier) -> Table | None:
    try:
        return catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def highest_lsn(table: Table, file: DataFile) -> int | None:
    """The upper bound of the log position in a file; None where it isn't told."""
    bound = file.upper_bounds.get(table.schema().find_field(LSN).field_id) if file.upper_bounds else None
    return None if bound is None else int.from_bytes(bound, "little", signed=True)


def log_positions(table: Table, files: Iterable[DataFile], beyond: int) -> list[int]:
    """The log positions greater than ``beyond`` in these files."""
    found: list[int] = []
    for file in files:
        bound = highest_lsn(table, file)
        if bound is not None and bound <= beyond:
            continue
        with table.io.new_input(file.file_path).open() as stream:
            column = pq.read_table(stream, columns=[LSN]).column(0)
        found += column.filter(pc.greater(column, beyond)).to_pylist()
    return found


@dataclass
class Arrival:
    """Log positions and when they were seen. ``positions``: source table to log position to seconds since 1970."""

    positions: dict[str, dict[int, float]] = field(default_factory=dict)

    def look(self, watcher: Watcher, beyond: int) -> None:
        """Note what has become visible since the last look."""
        for name, (table, files) in watcher.look().items():
            found = log_positions(table, files, beyond)
            now = time.time()
            known = self.positions.setdefault(name, {})
            for lsn in found:
                known.setdefault(lsn, now)


def drop(catalog: Catalog, namespaces: Iterable[str]) -> None:
    """Take out these namespaces with their tables and files, as far as there are any."""
    there = {".".join(name) for name in catalog.list_namespaces()}
    for namespace in there.intersection(namespaces):
        for identifier in catalog.list_tables(namespace):
            catalog.purge_table(identifier)
        catalog.drop_namespace(namespace)
