"""Find the live rows of a table that have certain keys, from what is remembered of its files.

A data file never changes: what was read of it once (each row's key, its log position and operation) stays true as long
as it lives. Only which files live changes, and which of their rows are deleted; both are read from the table whenever
somebody else has committed to it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.arrow_schema import NoArrowType, arrow_field, one_array
from pipelines.lake.file_rows import Budget, FileRows, FoundRow, LiveFile, found_rows, live_file, may_hold
from pipelines.lake.key_hashes import hash_keys
from pipelines.lake.storage import Storage
from pipelines.lake.stored_files import by_position, read_places, read_positions, read_rows
from pipelines.lake.table import LakeTable

LOG_POSITION, OPERATION = "_lsn", "_op"


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
        near = [file for file in self._files.values() if may_hold(file, limits)]
        if not self._remember(near, fields):
            self._give_up(near)
            if not self._remember(near, fields):
                return None
        columns = [one_array(keys[name]) for name in keys.column_names]
        hashes = hash_keys(columns)
        return [row for file in near for row in found_rows(file, self._rows[file.location], hashes, columns)]

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
        return read_places(self._storage, file.location, places, fields)

    def _look(self, table: LakeTable, keys: tuple[str, ...]) -> list[pa.Field] | None:
        """See which files live now; return the fields that are remembered of them."""
        columns = {column["name"]: column for column in table.columns}
        schema = (*table.identity, keys)
        try:
            fields = [arrow_field(columns[name]) for name in (*keys, LOG_POSITION, OPERATION)]
        except NoArrowType:
            return None
        if any(pa.types.is_nested(each.type) for each in fields):
            # Lists as keys are so seldom that nothing looks them up here.
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
            file = live_file(task["data-file"])
            if file is None or any(not by_position(each) for each in task["delete-files"]):
                return None
            files[file.location] = file
            deletes |= {each["file-path"] for each in task["delete-files"]}
        for location in self._deletes.keys() - deletes:
            del self._deletes[location]
        for location in sorted(deletes):
            if location not in self._deletes:
                self._deletes[location] = read_positions(self._storage, location)
            for path, places in self._deletes[location].items():
                if path in files:
                    files[path].delete(places)
        return files

    def _remember(self, files: Sequence[LiveFile], fields: Sequence[pa.Field]) -> bool:
        """Read what is to be remembered of files; return whether there is room for that, and they have it."""
        files = [file for file in files if file.location not in self._rows]
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
        rows = read_rows(self._storage, file.location, fields)
        keys = rows.drop_columns([LOG_POSITION, OPERATION])
        if any(keys[name].null_count for name in keys.column_names) or rows.num_rows != file.records:
            return None
        return FileRows.of(keys, rows[LOG_POSITION], rows[OPERATION])


def _bounds(table: LakeTable, keys: pa.Table) -> dict[int, tuple[int, int]]:
    """Return, of the key's columns that hold whole numbers, the least and greatest value, by the column's id."""
    found = {}
    for column in table.columns:
        name = column["name"]
        if name in keys.column_names and column["type"] in ("int", "long") and keys.num_rows:
            ends = pc.min_max(keys[name]).as_py()
            found[int(column["id"])] = (ends["min"], ends["max"])
    return found
