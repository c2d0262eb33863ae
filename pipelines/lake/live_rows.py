"""Find the live rows of a table that have certain keys, from what is remembered of its files.

A data file never changes: what was read of it once (each row's key, its log position and operation) stays true as long
as it lives. Only which files live changes, and which of their rows are deleted; both are read from the table whenever
somebody else has committed to it.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.arrow_schema import NoArrowType, arrow_field, field_id, field_ids
from pipelines.lake.data_files import Partition
from pipelines.lake.key_hashes import Hashes, hash_keys
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable

LOG_POSITION, OPERATION, READ = "_lsn", "_op", "r"
# Of a row: hash, place, log position, whether a snapshot read it, whether it is deleted; and about as much for its key.
ROW_BYTES = 48
NEVER_OLDER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class FileRows:
    """The rows of one data file: by rising hash of their keys, at which place of the file each is."""

    hashes: Hashes
    places: npt.NDArray[np.uint32]
    positions: npt.NDArray[np.int64]
    read: npt.NDArray[np.bool_]
    keys: pa.Table

    @classmethod
    def of(cls, keys: pa.Table, positions: pa.Array, operations: pa.Array) -> "FileRows":
        """Arrange a file's rows, given in their order."""
        keys = keys.combine_chunks()
        hashes = hash_keys([_one(keys[name]) for name in keys.column_names])
        order = np.argsort(hashes, kind="stable")
        known = pc.fill_null(positions, NEVER_OLDER).to_numpy(zero_copy_only=False)
        read = pc.fill_null(pc.equal(operations, READ), False).to_numpy(zero_copy_only=False)
        return cls(hashes[order], order.astype(np.uint32), known, read, keys)


@dataclass
class LiveFile:
    """A data file of the table's current snapshot. ``deleted``: by place, of the rows that are; None: none is."""

    location: str
    partition: Partition
    records: int
    bounds: Mapping[int, tuple[bytes, bytes]]
    deleted: npt.NDArray[np.bool_] | None = None

    def delete(self, places: npt.NDArray[np.integer[Any]]) -> None:
        """Note that the rows at these places are deleted."""
        if self.deleted is None:
            self.deleted = np.zeros(self.records, np.bool_)
        self.deleted[places] = True


@dataclass(frozen=True)
class FoundRow:
    """A live row that has the key of change number ``change``: where it is, and which event wrote it."""

    change: int
    file: LiveFile
    place: int
    log_position: int
    read: bool


@dataclass
class Budget:
    """How many rows all tables' files may be remembered of together."""

    rows: int
    used: int = field(default=0)

    def take(self, rows: int) -> bool:
        """Take so many, if there are."""
        if self.used + rows > self.rows:
            return False
        self.used += rows
        return True

    def give_back(self, rows: int) -> None:
        """Give so many back."""
        self.used -= rows


class LiveRows:
    """The live rows of one table. Used by one thread at a time. ``budget``: shared with the other tables."""

    def __init__(self, storage: Storage, budget: Budget) -> None:
        self._storage, self._budget = storage, budget
        self._schema: tuple[str, int, tuple[str, ...]] | None = None
        self._snapshot: int | None = None
        self._files: dict[str, LiveFile] = {}
        self._rows: dict[str, FileRows] = {}
        # Location of a file of positions to what it deletes.
        self._deletes: dict[str, dict[str, npt.NDArray[np.int64]]] = {}

    def forget(self) -> None:
        """Forget everything."""
        self._budget.give_back(sum(len(rows.places) for rows in self._rows.values()))
        self._schema = self._snapshot = None
        self._files, self._rows, self._deletes = {}, {}, {}

    def find(self, table: LakeTable, keys: pa.Table) -> list[FoundRow] | None:
        """Return the live rows with one of ``keys``, as the table was when it was looked up.

        None: it would take more memory than there is, or files hold what isn't understood here. ``keys``: columns of
        the key, in the table's types. Raises OSError.
        """
        fields = self._look(table, tuple(keys.column_names))
        if fields is None:
            return None
        limits = _bounds(table, keys)
        near = [file for file in self._files.values() if _may_hold(file, limits)]
        unread = [file for file in near if file.location not in self._rows]
        if not self._remember(unread, fields):
            self._give_up(near)
            if not self._remember(unread, fields):
                return None
        columns = [_one(keys[name]) for name in keys.column_names]
        hashes = hash_keys(columns)
        return [row for file in near for row in self._found(file, hashes, columns)]

    def committed(
        self,
        table: LakeTable,
        before: int | None,
        written: Sequence[tuple[LiveFile, FileRows]],
        deleted: Sequence[FoundRow],
    ) -> None:
        """Note what was committed on top of the snapshot ``before``, that of the last look."""
        if before != self._snapshot or table.parent_snapshot_id != before:
            self._snapshot = None
            return
        self._snapshot = table.snapshot_id
        for row in deleted:
            row.file.delete(np.array([row.place]))
        for file, rows in written:
            self._files[file.location] = file
            if self._budget.take(file.records):
                self._rows[file.location] = rows

    def read(self, file: LiveFile, places: npt.NDArray[np.integer[Any]], fields: Sequence[pa.Field]) -> pa.Table:
        """Read columns of a file's rows at these places, in their order. Raises OSError."""
        with self._storage.open(file.location) as source:
            parquet = pq.ParquetFile(source)
            sizes = [parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            groups = np.searchsorted(starts, places, side="right") - 1
            chosen = np.unique(groups)
            names = field_ids(parquet.schema_arrow)
            stored = [names[field_id(f)] for f in fields if field_id(f) in names]
            rows = parquet.read_row_groups([int(g) for g in chosen], columns=stored)
        # Where each chosen group begins among what was read.
        begins = dict(zip(chosen, np.concatenate([[0], np.cumsum([sizes[g] for g in chosen])]), strict=False))
        at = np.array([begins[g] + place - starts[g] for g, place in zip(groups, places, strict=True)])
        return _as_fields(rows.take(pa.array(at)), names, fields)

    def _look(self, table: LakeTable, keys: tuple[str, ...]) -> list[pa.Field] | None:
        """See which files live now; return the fields that are remembered of them."""
        columns = {column["name"]: column for column in table.columns}
        schema = (*table.identity, keys)
        try:
            fields = [arrow_field(columns[name]) for name in (*keys, LOG_POSITION, OPERATION)]
        except NoArrowType:
            return None
        if schema != self._schema:
            # Of a key of other columns, or other types of them.
            self.forget()
            self._schema = schema
        if self._snapshot is None or self._snapshot != table.snapshot_id:
            found = self._listed(table, keys)
            if found is None:
                self.forget()
                return None
            self._files, self._snapshot = found, table.snapshot_id
            gone = self._rows.keys() - found.keys()
            self._budget.give_back(sum(len(self._rows.pop(location).places) for location in gone))
        return fields

    def _listed(self, table: LakeTable, keys: Sequence[str]) -> dict[str, LiveFile] | None:
        """Read from the table which files live, and which of their rows are deleted; None: not by position alone."""
        files: dict[str, LiveFile] = {}
        deletes: set[str] = set()
        for task in table.file_tasks(keys):
            file = _live_file(task["data-file"])
            if file is None or any(not _by_position(each) for each in task["delete-files"]):
                return None
            files[file.location] = file
            deletes |= {each["file-path"] for each in task["delete-files"]}
        for location in self._deletes.keys() - deletes:
            del self._deletes[location]
        for location in sorted(deletes):
            if location not in self._deletes:
                self._deletes[location] = self._read_deletes(location)
            for path, places in self._deletes[location].items():
                if path in files:
                    files[path].delete(places)
        return files

    def _read_deletes(self, location: str) -> dict[str, npt.NDArray[np.int64]]:
        with self._storage.open(location) as source:
            rows = pq.read_table(source, columns=["file_path", "pos"])
        # Sorted by the file, so each has one run.
        paths = rows["file_path"].combine_chunks().dictionary_encode()
        paths = _one(paths)
        codes, places = paths.indices.to_numpy(), rows["pos"].to_numpy()
        return {path: places[codes == code] for code, path in enumerate(paths.dictionary.to_pylist())}

    def _remember(self, files: Sequence[LiveFile], fields: Sequence[pa.Field]) -> bool:
        """Read what is to be remembered of files; return whether there is room for that, and they have it."""
        wanted = sum(file.records for file in files)
        if not self._budget.take(wanted):
            return False
        try:
            for file in files:
                rows = self._file_rows(file, fields)
                if rows is None:
                    return False
                self._rows[file.location] = rows
                wanted -= file.records
            return True
        finally:
            self._budget.give_back(wanted)

    def _give_up(self, near: Sequence[LiveFile]) -> None:
        """Remember nothing of files any more but of those that are needed now."""
        needed = {file.location for file in near}
        for location in self._rows.keys() - needed:
            self._budget.give_back(len(self._rows.pop(location).places))

    def _file_rows(self, file: LiveFile, fields: Sequence[pa.Field]) -> FileRows | None:
        with self._storage.open(file.location) as source:
            parquet = pq.ParquetFile(source)
            names = field_ids(parquet.schema_arrow)
            stored = [names[field_id(f)] for f in fields if field_id(f) in names]
            rows = _as_fields(parquet.read(columns=stored), names, fields)
        keys = rows.drop_columns([LOG_POSITION, OPERATION])
        if any(keys[name].null_count for name in keys.column_names) or rows.num_rows != file.records:
            return None
        return FileRows.of(keys, rows[LOG_POSITION], rows[OPERATION])

    def _found(self, file: LiveFile, hashes: Hashes, columns: Sequence[pa.Array]) -> Iterator[FoundRow]:
        rows = self._rows[file.location]
        first = np.searchsorted(rows.hashes, hashes, side="left")
        counts = np.searchsorted(rows.hashes, hashes, side="right") - first
        changes = np.repeat(np.arange(len(hashes)), counts)
        # Of each change, one after the other, all that have its hash.
        nth = np.arange(len(changes)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = rows.places[np.repeat(first, counts) + nth]
        alive = np.ones(len(places), np.bool_) if file.deleted is None else ~file.deleted[places]
        same = alive & _equal(rows.keys, places, columns, changes)
        for change, place in zip(changes[same].tolist(), places[same].tolist(), strict=True):
            yield FoundRow(change, file, place, int(rows.positions[place]), bool(rows.read[place]))


def _equal(
    keys: pa.Table, places: npt.NDArray[np.uint32], columns: Sequence[pa.Array], changes: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return whether the keys at places are those of changes, as Spark's SQL compares: no number is equal to itself."""
    equal = np.ones(len(places), np.bool_)
    for index, column in enumerate(columns):
        mine, other = _stored(keys.column(index).take(pa.array(places))), _stored(column.take(pa.array(changes)))
        same = pc.equal(mine, other)
        if pa.types.is_floating(column.type):
            same = pc.or_(same, pc.and_(pc.is_nan(mine), pc.is_nan(other)))
        equal &= same.to_numpy(zero_copy_only=False)
    return equal


def _stored(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    column = _one(column)
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _as_fields(rows: pa.Table, names: Mapping[int, str], fields: Sequence[pa.Field]) -> pa.Table:
    """Give what was read of a file the names and types that the table has now; a column that it lacks is null."""
    columns = []
    for each in fields:
        name = names.get(field_id(each))
        column = pa.nulls(rows.num_rows, each.type) if name is None else _one(rows[name])
        columns.append(as_type(column, each.type))
    return pa.table(columns, names=[each.name for each in fields])


def as_rows(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Return rows as Spark gives them in the columns and types of a table; a column that they lack is null."""
    columns = []
    for each in fields:
        if each.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, each.type))
            continue
        column = _one(rows[each.name])
        if each.type == pa.uuid():
            texts = column.to_pylist()
            column = pa.array([None if text is None else uuid.UUID(text).bytes for text in texts], pa.binary(16))
        columns.append(as_type(column, each.type))
    return pa.table(columns, schema=pa.schema(fields))


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the type that a table has: what was promoted since, or bytes of a uuid."""
    if column.type == kind:
        return column
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, column)
    return column.cast(kind)


def _live_file(file: Mapping[str, Any]) -> LiveFile | None:
    if file["file-format"] != "parquet":
        return None
    lower, upper = (_by_id(file.get(f"{side}-bounds", {"keys": [], "values": []})) for side in ("lower", "upper"))
    bounds = {identifier: (lower[identifier], upper[identifier]) for identifier in lower.keys() & upper.keys()}
    partition = Partition(int(file["spec-id"]), tuple(file.get("partition", ())))
    return LiveFile(file["file-path"], partition, int(file["record-count"]), bounds)


def _by_id(entries: Mapping[str, Any]) -> dict[int, bytes]:
    return {key: bytes.fromhex(value) for key, value in zip(entries["keys"], entries["values"], strict=True)}


def _by_position(file: Mapping[str, Any]) -> bool:
    return bool(file["content"] == "position-deletes" and file["file-format"] == "parquet")


def _bounds(table: LakeTable, keys: pa.Table) -> dict[int, tuple[int, int]]:
    """Return, of the key's columns that hold whole numbers, the least and greatest value, by the column's id."""
    found = {}
    for column in table.columns:
        name = column["name"]
        if name in keys.column_names and column["type"] in ("int", "long") and keys.num_rows:
            ends = pc.min_max(keys[name]).as_py()
            found[int(column["id"])] = (ends["min"], ends["max"])
    return found


def _may_hold(file: LiveFile, limits: Mapping[int, tuple[int, int]]) -> bool:
    for identifier, (low, high) in limits.items():
        if identifier in file.bounds:
            # In a single value's bytes Iceberg has the least significant first.
            least, most = (int.from_bytes(bound, "little", signed=True) for bound in file.bounds[identifier])
            if high < least or low > most:
                return False
    return True
