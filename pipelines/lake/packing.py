"""Pack the small files of a table without Spark: read what lives, write it in order, and commit that in their place.

Files that are packed often are small, and then the planning and starting of tasks costs more than the rows do. What
this can't do, or what is much, is left to Iceberg's own action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipelines.lake.actions import RewriteResult, TableActions
from pipelines.lake.arrow_schema import NoArrowType, arrow_field, one_array
from pipelines.lake.data_files import FileWriter, Partition, WrittenFile
from pipelines.lake.storage import Storage
from pipelines.lake.stored_files import by_position, read_positions, read_rows
from pipelines.lake.table import LakeTable
from pipelines.specs.layout import Term


@dataclass(frozen=True)
class Packing:
    """Which files are packed, and to what.

    ``small``: files of fewer bytes, where a partition has ``fewest`` of them. ``share``: files of which more is
    deleted. ``target``: bytes of the new files. ``most``: bytes that are read at once; where it is more, none are.
    """

    small: int
    fewest: int
    share: float
    target: int
    most: int


@dataclass
class _Part:
    """A partition's data files by location, and the files of its deletes, in Iceberg's JSON form."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    deletes: dict[str, dict[str, Any]] = field(default_factory=dict)


def plan(session: SparkSession, table: LakeTable, order: Sequence[Term], packing: Packing) -> "Pack | None":
    """Plan what is packed of the table, as it was when it was looked up, and read it.

    Rows are sorted by ``order``, and otherwise come in the order in which they were written. None: it is to be left to
    Iceberg's action. Raises OSError.
    """
    if table.snapshot_id is None or any(term.transform != "identity" for term in order):
        return None
    try:
        fields = [arrow_field(column) for column in table.columns]
    except NoArrowType:
        return None
    parts, spec, storage = _parts(table), int(table.java.spec().specId()), Storage.of(session)
    if parts is None or any(partition.spec != spec for partition in parts):
        return None
    work = {partition: _Work.of(part, storage, packing, table.deletes_together) for partition, part in parts.items()}
    due = {partition: each for partition, each in work.items() if each.is_due}
    if sum(each.bytes for each in due.values()) > packing.most:
        return None
    try:
        reading = _Reading(storage, fields, order)
        rows = {partition: reading.rows(each) for partition, each in due.items() if each.packed}
        return Pack(session, table, table.snapshot_id, packing, due, rows)
    except pa.ArrowException:
        return None


@dataclass(frozen=True)
class _Work:
    """What is done with a partition. ``packed``: the data files; ``dead``: data file to places of deleted rows."""

    part: _Part
    packed: tuple[str, ...]
    dead: Mapping[str, npt.NDArray[np.int64]]
    has_useless: bool

    @classmethod
    def of(cls, part: _Part, storage: Storage, packing: Packing, together: bool) -> "_Work":
        """Decide it. ``together``: positions of several data files are to be in one file."""
        dead: dict[str, list[npt.NDArray[np.int64]]] = {}
        for location in part.deletes:
            for path, places in read_positions(storage, location).items():
                dead.setdefault(path, []).append(places)
        gone = {path: np.unique(np.concatenate(places)) for path, places in dead.items()}
        small = {path for path, file in part.files.items() if file["file-size-in-bytes"] < packing.small}
        emptied = {
            path
            for path, file in part.files.items()
            if len(gone.get(path, ())) > packing.share * file["record-count"]
        }  # fmt: skip
        # With what is rewritten anyway the small ones go, however few.
        chosen = emptied | small if emptied or len(small) >= packing.fewest else set()
        several = len(part.deletes) > 1 if together else any(len(places) > 1 for places in dead.values())
        useless = several or not gone.keys() <= part.files.keys()
        return cls(part, tuple(path for path in part.files if path in chosen), gone, useless)

    @property
    def is_due(self) -> bool:
        """Whether anything gets better."""
        return bool(self.packed) or self.has_useless

    @property
    def bytes(self) -> int:
        """The bytes of the data files that are read."""
        return sum(int(self.part.files[path]["file-size-in-bytes"]) for path in self.packed)


@dataclass(frozen=True)
class _Reading:
    storage: Storage
    fields: Sequence[pa.Field]
    order: Sequence[Term]

    def rows(self, work: _Work) -> pa.Table:
        """Return the live rows of the files that are packed, in order."""
        found = [self._live(path, work.dead.get(path)) for path in work.packed]
        rows = pa.concat_tables(found)
        if not self.order:
            return rows
        by = pa.table({str(i): _sortable(rows[term.column]) for i, term in enumerate(self.order)})
        keys = [(name, "ascending", "at_start") for name in by.column_names]
        return rows.take(pc.sort_indices(by, sort_keys=keys))

    def _live(self, path: str, dead: npt.NDArray[np.int64] | None) -> pa.Table:
        rows = read_rows(self.storage, path, self.fields)
        if dead is not None:
            alive = np.ones(rows.num_rows, np.bool_)
            alive[dead] = False
            rows = rows.filter(pa.array(alive))
        return pa.table(rows.columns, schema=pa.schema(self.fields))


@dataclass(frozen=True)
class Pack:
    """What is packed: of each partition what is done, and the rows of its new files.

    ``snapshot``: what was looked at.
    """

    session: SparkSession
    table: LakeTable
    snapshot: int
    packing: Packing
    due: Mapping[Partition, _Work]
    rows: Mapping[Partition, pa.Table]

    def commit(self) -> RewriteResult:
        """Write the new files and commit them, and leave no position in a file that is gone.

        Fails if somebody else has deleted rows of the packed files meanwhile. Raises OSError.
        """
        table, writer, added, removed = self.table, FileWriter(self.table, Storage.of(self.session)), [], []
        for partition, work in self.due.items():
            added += self._data(writer, partition, work)
            added += self._deletes(writer, partition, work)
            removed += [writer.existing(work.part.files[path]) for path in work.packed]
            removed += [writer.existing(each) for each in work.part.deletes.values()]
        writer.finish()
        if removed:
            rewrite = table.java.newRewrite().validateFromSnapshot(self.snapshot)
            for each in removed:
                rewrite = rewrite.deleteFile(each)
            for file in added:
                rewrite = rewrite.addFile(file.java)
            rewrite.commit()
            table.refresh()
        useless = TableActions(self.session, table).drop_useless_deletes()
        return RewriteResult(len(removed) + useless, len(added), sum(work.bytes for work in self.due.values()))

    def _data(self, writer: FileWriter, partition: Partition, work: _Work) -> list[WrittenFile]:
        rows = self.rows.get(partition)
        if rows is None or not rows.num_rows:
            return []
        size = -(-rows.num_rows // max(1, round(work.bytes / self.packing.target)))
        return [writer.data(rows.slice(at, size), partition) for at in range(0, rows.num_rows, size)]

    def _deletes(self, writer: FileWriter, partition: Partition, work: _Work) -> list[WrittenFile]:
        """Write the positions anew that are in files which stay."""
        left: dict[str | None, list[tuple[str, int]]] = {}
        for path, places in work.dead.items():
            if path in work.part.files and path not in work.packed:
                group = None if self.table.deletes_together else path
                left.setdefault(group, []).extend((path, int(place)) for place in places)
        return [writer.deletes(positions, partition) for positions in left.values()]


def _parts(table: LakeTable) -> dict[Partition, _Part] | None:
    """Return what each partition has; None: something of it isn't understood here."""
    parts: dict[Partition, _Part] = {}
    for task in table.file_tasks(()):
        file, deletes = task["data-file"], task["delete-files"]
        if file["file-format"] != "parquet" or not all(map(by_position, deletes)):
            return None
        part = parts.setdefault(Partition.of(file), _Part())
        part.files[file["file-path"]] = file
        for each in deletes:
            if Partition.of(each) != Partition.of(file):
                return None
            part.deletes[each["file-path"]] = each
    return parts


def _sortable(column: pa.ChunkedArray) -> pa.Array:
    whole = one_array(column)
    return whole.storage if isinstance(whole, pa.ExtensionArray) else whole
