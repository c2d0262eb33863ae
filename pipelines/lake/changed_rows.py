"""The rows that came to a table, or went from it, between two of its snapshots, by the files that did.

Whoever asks what may have changed is never told too little, and may be told of rows that came and went in between.
Snapshots that only arrange rows anew (a compaction) are left out.
"""

from collections import Counter
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
            step = _step(table.jvm, java, snapshot)
            if step is None:
                return None
            steps.insert(0, step)
        parent = snapshot.parentId()
        snapshot = None if parent is None else java.snapshot(parent)
    return None if snapshot is None else [step for step in steps if step.rows]


def _step(jvm: Any, java: Any, snapshot: Any) -> ChangedFiles | None:
    changes = jvm.org.apache.iceberg.SnapshotChanges.builderFor(java).snapshot(snapshot).build()
    found = [
        list(_each(files())) for files in (changes.addedDataFiles, changes.removedDataFiles, changes.addedDeleteFiles)
    ]
    every = [file for files in found for file in files]
    positions = all(str(file.content().name()) == "POSITION_DELETES" for file in found[2])
    if not positions or not all(str(file.format().name()) == "PARQUET" for file in every):
        return None
    added, removed, deletes = (tuple(str(file.location()) for file in files) for files in found)
    rows = sum(int(file.recordCount()) for file in every)
    return ChangedFiles(added, removed, deletes, rows, int(snapshot.timestampMillis()))


def read_changed(storage: Storage, files: ChangedFiles, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows that came or went, in the columns ``fields``. Raises OSError, also where a file is gone.

    A row that went and came again with the same values in these columns isn't among them. What came and went in between
    may be.
    """
    if files.removed:
        # Which of their rows had been deleted before isn't told, so nothing can be set off against them.
        parts = [read_rows(storage, location, fields) for location in (*files.added, *files.removed)]
        return _together([*parts, read_deleted(storage, files, fields)], fields)
    came = _together([read_rows(storage, location, fields) for location in files.added], fields)
    went = read_deleted(storage, files, fields)
    return _net(came, went) if came.num_rows and went.num_rows else _together([came, went], fields)


def _net(came: pa.Table, went: pa.Table) -> pa.Table:
    """Return the rows of both that the other hasn't got as often."""
    mine, others = _texts(came), _texts(went)
    left = Counter(mine)
    left.subtract(others)
    kept = []
    for rows, texts, sign in ((came, mine, 1), (went, others, -1)):
        places = []
        for place, text in enumerate(texts):
            if left[text] * sign > 0:
                left[text] -= sign
                places.append(place)
        kept.append(rows.take(pa.array(places, pa.int64())))
    return pa.concat_tables(kept)


def _texts(rows: pa.Table) -> list[str]:
    """Return a text of each row's values, the same for the same values."""
    return [repr(row) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]


def _together(parts: Sequence[pa.Table], fields: Sequence[pa.Field]) -> pa.Table:
    # No rows have the same schema as those that were read: each column may be null.
    return pa.concat_tables([pa.schema([(each.name, each.type) for each in fields]).empty_table(), *parts])


def read_deleted(storage: Storage, files: ChangedFiles, fields: Sequence[pa.Field]) -> pa.Table:
    """Return the rows that these files of positions delete. Raises OSError."""
    parts: list[pa.Table] = []
    gone: dict[str, list[npt.NDArray[np.int64]]] = {}
    for location in files.deletes:
        for path, places in read_positions(storage, location).items():
            gone.setdefault(path, []).append(places)
    for path, found in gone.items():
        parts.append(read_places(storage, path, np.unique(np.concatenate(found)), fields))
    return _together(parts, fields)


def _each(iterable: Any) -> Iterator[Any]:
    found = iterable.iterator()
    while found.hasNext():
        yield found.next()
