"""The rows that came to a table, or went from it, between two of its snapshots, by the files that did.

Of files that were added and of files that were removed all rows are among them, also those that came and went in
between: whoever asks what may have changed is never told too little. Snapshots that only arrange rows anew (a
compaction) are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.lake.storage import Storage
from pipelines.lake.stored_files import read_places, read_positions, read_rows
from pipelines.lake.table import LakeTable

REPLACE = "replace"


@dataclass(frozen=True)
class ChangedFiles:
    """The files that tell what changed between two snapshots.

    ``added``, ``removed``: data files; ``deletes``: files of positions that came. ``rows``: how many rows they tell of,
    at most. ``since``: when the first of these changes was committed, in milliseconds since 1970; None: there is none.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    deletes: tuple[str, ...]
    rows: int
    since: int | None

    @property
    def whole(self) -> dict[str, None]:
        """The data files that came or went, each once."""
        return dict.fromkeys((*self.added, *self.removed))


def changed_files(table: LakeTable, before: int, after: int) -> ChangedFiles | None:
    """Return the files that tell what changed from one snapshot to a later one.

    None: they don't tell: ``before`` is no ancestor that is still kept, or files are of a form that isn't read here.
    """
    steps = steps_between(table, before, after)
    if steps is None:
        return None
    return ChangedFiles(
        added=tuple(path for step in steps for path in step.added),
        removed=tuple(path for step in steps for path in step.removed),
        deletes=tuple(path for step in steps for path in step.deletes),
        rows=sum(step.rows for step in steps), since=steps[0].since if steps else None,
    )  # fmt: skip


def steps_between(table: LakeTable, before: int, after: int) -> list[ChangedFiles] | None:
    """Return what each commit between two snapshots changed, oldest first. None: as for :func:`changed_files`."""
    steps: list[ChangedFiles] = []
    java, snapshot = table.java, table.java.snapshot(after)
    while snapshot is not None and int(snapshot.snapshotId()) != before:
        if str(snapshot.operation()) != REPLACE:
            step = _step(java, snapshot)
            if step is None:
                return None
            steps.insert(0, step)
        parent = snapshot.parentId()
        snapshot = None if parent is None else java.snapshot(parent)
    return None if snapshot is None else [step for step in steps if step.rows]


def _step(java: Any, snapshot: Any) -> ChangedFiles | None:
    kinds = (snapshot.addedDataFiles, snapshot.removedDataFiles, snapshot.addedDeleteFiles)
    found = [list(_each(files(java.io()))) for files in kinds]
    every = [file for files in found for file in files]
    positions = all(str(file.content().name()) == "POSITION_DELETES" for file in found[2])
    if not positions or not all(str(file.format().name()) == "PARQUET" for file in every):
        return None
    added, removed, deletes = (tuple(str(file.location()) for file in files) for files in found)
    rows = sum(int(file.recordCount()) for file in every)
    return ChangedFiles(added, removed, deletes, rows, int(snapshot.timestampMillis()))


def read_changed(storage: Storage, files: ChangedFiles, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows that these files tell of, in the columns ``fields``. Raises OSError, also where one is gone."""
    parts = [read_rows(storage, location, fields) for location in files.whole]
    gone: dict[str, list[npt.NDArray[np.int64]]] = {}
    for location in files.deletes:
        for path, places in read_positions(storage, location).items():
            if path not in files.whole:
                gone.setdefault(path, []).append(places)
    for path, found in gone.items():
        parts.append(read_places(storage, path, np.unique(np.concatenate(found)), fields))
    return pa.concat_tables(parts) if parts else pa.schema(fields).empty_table()


def _each(iterable: Any) -> Iterator[Any]:
    found = iterable.iterator()
    while found.hasNext():
        yield found.next()
