"""Commit rows and positions of deleted rows, which are written by now, in one snapshot."""

from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from pipelines.errors import PipelineError
from pipelines.lake.data_files import WrittenFile
from pipelines.lake.table import LakeTable
from pipelines.lake.validator import UnchangedValidator

# What Iceberg says of a table that has another snapshot by now, or is gone.
NOT_COMMITTED = ("ValidationException", "NoSuchTableException")
MOVED = "somebody else has committed to it since its rows were looked for"


class Moved(PipelineError):
    """A table isn't any more what it was when its rows were looked for. Nothing was committed."""


def commit_row_delta(
    table: LakeTable, rows: Iterable[WrittenFile], deletes: Iterable[WrittenFile], summary: Mapping[str, str]
) -> None:
    """Commit these files with ``summary``, on top of the snapshot that the table had when it was looked up.

    Raises Moved if somebody else has committed meanwhile. Whoever gets no answer looks at the table again.
    """
    delta = table.labelled(table.java.newRowDelta(), summary, UnchangedValidator(table, MOVED))
    for file in rows:
        delta = delta.addRows(file.java)
    for file in deletes:
        delta = delta.addDeletes(file.java)
    commit_or_moved(delta, table)


def commit_or_moved(update: Any, table: LakeTable) -> None:
    """Commit Iceberg's update of a table. Raises Moved where the table isn't any more what it was."""
    try:
        update.commit()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() in NOT_COMMITTED:
            raise Moved(f"{table.namespace}.{table.name}: {MOVED}") from None
        raise
