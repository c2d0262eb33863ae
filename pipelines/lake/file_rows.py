"""What is remembered of a data file's rows, and the search for keys among them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.arrow_schema import one_array
from pipelines.lake.data_files import Partition
from pipelines.lake.key_hashes import Hashes, hash_keys
from pipelines.schema.technical import SNAPSHOT_READ

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
        hashes = hash_keys([one_array(keys[name]) for name in keys.column_names])
        order = np.argsort(hashes, kind="stable")
        known = pc.fill_null(positions, NEVER_OLDER).to_numpy(zero_copy_only=False)
        read = pc.fill_null(pc.equal(operations, SNAPSHOT_READ), False).to_numpy(zero_copy_only=False)
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
    """How many rows all tables' files may be remembered of together. Safe to use from several threads."""

    rows: int
    used: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def take(self, rows: int) -> bool:
        """Take so many, if there are."""
        with self._lock:
            if self.used + rows > self.rows:
                return False
            self.used += rows
            return True

    def give_back(self, rows: int) -> None:
        """Give so many back."""
        with self._lock:
            self.used -= rows


def found_rows(file: LiveFile, rows: FileRows, hashes: Hashes, columns: Sequence[pa.Array]) -> Iterator[FoundRow]:
    """Yield the live rows of a file that have one of the keys in ``columns``, whose hashes are given."""
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


def live_file(file: Mapping[str, Any]) -> LiveFile | None:
    """Return a data file, from its JSON form, in which it has the bounds of its key; None: it isn't Parquet."""
    if file["file-format"] != "parquet":
        return None
    lower, upper = (_by_id(file.get(f"{side}-bounds", {"keys": [], "values": []})) for side in ("lower", "upper"))
    bounds = {identifier: (lower[identifier], upper[identifier]) for identifier in lower.keys() & upper.keys()}
    return LiveFile(file["file-path"], Partition.of(file), int(file["record-count"]), bounds)


def _by_id(entries: Mapping[str, Any]) -> dict[int, bytes]:
    return {key: bytes.fromhex(value) for key, value in zip(entries["keys"], entries["values"], strict=True)}


def may_hold(file: LiveFile, limits: Mapping[int, tuple[int, int]]) -> bool:
    """Return whether a file may have values within these limits, by column id."""
    for identifier, (low, high) in limits.items():
        if identifier in file.bounds:
            # In a single value's bytes Iceberg has the least significant first.
            least, most = (int.from_bytes(bound, "little", signed=True) for bound in file.bounds[identifier])
            if high < least or low > most:
                return False
    return True


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
    column = one_array(column)
    return column.storage if isinstance(column, pa.ExtensionArray) else column
