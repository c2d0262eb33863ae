"""Append files, which are written by now, in one snapshot."""

from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.lake.data_files import WrittenFile
from pipelines.lake.row_delta import commit_or_moved
from pipelines.lake.table import LakeTable


def append_files(table: LakeTable, files: Iterable[WrittenFile], summary: Mapping[str, str], validator: Any) -> None:
    """Commit these files with ``summary``, where ``validator`` lets them be laid over what the table has by now.

    Raises Moved if it doesn't. Whoever gets no answer looks at the table again.
    """
    append = table.labelled(table.java.newAppend(), summary, validator)
    for file in files:
        append = append.appendFile(file.java)
    commit_or_moved(append, table)
