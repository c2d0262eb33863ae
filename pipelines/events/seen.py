"""Which events a stream's table has already: what a producer sends twice is kept once.

Of each data file the hashes of its events' identifiers are kept, sorted, in a file beside the process: it can be looked
through without being read whole, and made again from the table. What has the same hash is compared in the table itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.arrow_schema import arrow_field, one_array
from pipelines.lake.data_files import WrittenFile
from pipelines.lake.key_hashes import Hashes, hash_keys
from pipelines.lake.storage import Storage
from pipelines.lake.stored_files import read_rows
from pipelines.lake.table import LakeTable
from pipelines.specs.events import Deduplicate


@dataclass(frozen=True)
class _SeenFile:
    """The events of one data file. ``hashes``: sorted; ``first``, ``last``: their event times, in microseconds."""

    location: str
    hashes: Hashes
    first: int
    last: int


class SeenEvents:
    """The identifiers that a table has. Used by one thread at a time.

    ``folder``: where hashes are kept; nothing in it is missed if it is gone.
    """

    def __init__(self, rule: Deduplicate, event_time: str, storage: Storage, folder: Path) -> None:
        self._rule, self._event_time, self._storage, self._folder = rule, event_time, storage, folder
        self._snapshot: int | None = None
        # Of events from before, files may have been given up.
        self._since = 0
        self._files: dict[str, _SeenFile] = {}

    @property
    def rows(self) -> int:
        """How many events are remembered."""
        return sum(len(file.hashes) for file in self._files.values())

    def fresh(self, table: LakeTable, rows: pa.Table) -> "npt.NDArray[np.bool_]":
        """Return which of ``rows`` are of events that neither the table has nor an earlier one of ``rows`` is.

        Rows are in the order in which Kafka got them. An event without an identifier is fresh. Raises OSError.
        """
        identifiers, times = one_array(rows[self._rule.by]), _micros(rows[self._event_time])
        within = round(self._rule.within * 1e6)
        known = pc.is_valid(identifiers).to_numpy(zero_copy_only=False)
        if not known.any():
            return np.ones(rows.num_rows, np.bool_)
        self._look(table, int(times[known].min()) - within)
        hashes = np.zeros(rows.num_rows, np.uint64)
        hashes[known] = hash_keys([identifiers.filter(pa.array(known))])
        taken = self._in_table(table, identifiers, times, hashes, known, within)
        last: dict[Any, int] = {}
        fresh = ~taken
        for index in np.flatnonzero(known & fresh).tolist():
            identifier, moment = identifiers[index].as_py(), int(times[index])
            before = last.get(identifier)
            if before is not None and abs(moment - before) <= within:
                fresh[index] = False
            else:
                last[identifier] = moment
        return fresh

    def committed(self, table: LakeTable, before: int | None, files: Sequence[tuple[WrittenFile, pa.Table]]) -> None:
        """Note what was appended on top of the snapshot ``before``, that of the last look."""
        if before != self._snapshot or table.parent_snapshot_id != before:
            self._snapshot = None
            return
        self._snapshot = table.snapshot_id
        for file, rows in files:
            self._remember(file.location, rows)

    def _in_table(
        self, table: LakeTable, identifiers: pa.Array, times: npt.NDArray[np.int64], hashes: Hashes,
        known: "npt.NDArray[np.bool_]", within: int,
    ) -> "npt.NDArray[np.bool_]":  # fmt: skip
        found = np.zeros(len(identifiers), np.bool_)
        for file in self._files.values():
            near = known & ~found & (times + within >= file.first) & (times - within <= file.last)
            places = np.flatnonzero(near)
            if not len(places) or not len(file.hashes):
                continue
            at = np.minimum(np.searchsorted(file.hashes, hashes[places]), len(file.hashes) - 1)
            alike = places[file.hashes[at] == hashes[places]]
            if len(alike):
                theirs = self._read(table, file.location)
                has: dict[Any, list[int]] = {}
                for identifier, moment in zip(
                    theirs[self._rule.by].to_pylist(), _micros(theirs[self._event_time]).tolist(), strict=True
                ):
                    has.setdefault(identifier, []).append(moment)
                for index in alike.tolist():
                    moments = has.get(identifiers[index].as_py(), ())
                    found[index] = any(abs(moment - int(times[index])) <= within for moment in moments)
        return found

    def _look(self, table: LakeTable, since: int) -> None:
        """See which files the table has that may hold events since then; what is known of others is given up."""
        for location in [location for location, file in self._files.items() if file.last < since]:
            self._forget(location)
        if table.snapshot_id == self._snapshot and since >= self._since:
            self._since = since
            return
        identifier = next(column["id"] for column in table.columns if column["name"] == self._event_time)
        live = {
            str(task["data-file"]["file-path"]): task["data-file"]
            for task in table.file_tasks([self._event_time])
            if _last(task["data-file"], identifier) >= since
        }
        for location in self._files.keys() - live.keys():
            self._forget(location)
        for location in live.keys() - self._files.keys():
            self._remember(location, self._read(table, location))
        self._snapshot, self._since = table.snapshot_id, since

    def _remember(self, location: str, rows: pa.Table) -> None:
        identifiers = one_array(rows[self._rule.by])
        valid = pc.is_valid(identifiers)
        times = _micros(rows[self._event_time])
        path = self._path(location)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            there = identifiers.filter(valid)
            hashes = np.sort(hash_keys([there])) if len(there) else np.zeros(0, np.uint64)
            unfinished = path.with_suffix(".part")
            with unfinished.open("wb") as file:
                np.save(file, hashes)
            unfinished.replace(path)
        mapped = np.load(path, mmap_mode="r")
        first, last = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        self._files[location] = _SeenFile(location, mapped, first, last)

    def _forget(self, location: str) -> None:
        self._files.pop(location, None)
        self._path(location).unlink(missing_ok=True)

    def _path(self, location: str) -> Path:
        return self._folder / f"{sha256(location.encode()).hexdigest()[:32]}.npy"

    def _read(self, table: LakeTable, location: str) -> pa.Table:
        wanted = (self._rule.by, self._event_time)
        fields = [arrow_field(column) for column in table.columns if column["name"] in wanted]
        return read_rows(self._storage, location, fields)


def _micros(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """Return event times in microseconds since 1970; none is null."""
    moments = one_array(column)
    found: npt.NDArray[np.int64] = moments.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _last(file: dict[str, Any], identifier: int) -> int:
    """Return the latest event time that a data file may have, by its bounds; without any: the end of time."""
    bounds = file.get("upper-bounds", {"keys": [], "values": []})
    by = dict(zip(bounds["keys"], bounds["values"], strict=True))
    if identifier not in by:
        return int(np.iinfo(np.int64).max)
    raw = bytes.fromhex(by[identifier])
    value = int.from_bytes(raw, "little", signed=True)
    # Of dates it is days.
    return (value + 1) * 86_400_000_000 if len(raw) == 4 else value
