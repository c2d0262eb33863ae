"""Iceberg's own actions: rewrite a table's files, count its values, delete files that nobody refers to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from pipelines.lake.file_deletion import may_delete
from pipelines.lake.partitioning import sort_order
from pipelines.lake.table import LakeTable, strings
from pipelines.specs.layout import Term


@dataclass(frozen=True)
class RewriteResult:
    """How many files were removed and added, and the bytes of those that were removed."""

    removed: int
    added: int
    bytes: int = 0


class TableActions:
    """The actions on one table, through a session. Each commits by itself; the table is refreshed after it."""

    def __init__(self, session: SparkSession, table: LakeTable) -> None:
        self._session, self._table, self._jvm = session, table, table.jvm
        self._actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)

    def rewrite_data_files(self, options: Mapping[str, object], order: Sequence[Term]) -> RewriteResult:
        """Pack data files anew, sorted by ``order``, by the options of Iceberg's action."""
        action = self._actions.rewriteDataFiles(self._table.java)
        if order:
            action = action.sort(sort_order(self._table, order))
        result = _with(action, options).execute()
        self._table.java.refresh()
        removed = int(result.rewrittenDataFilesCount()) + int(result.removedDeleteFilesCount())
        return RewriteResult(removed, int(result.addedDataFilesCount()), int(result.rewrittenBytesCount()))

    def rewrite_position_deletes(self, options: Mapping[str, object]) -> RewriteResult:
        """Write delete files anew as the table's granularity has it, without positions in data files that are gone."""
        result = _with(self._actions.rewritePositionDeletes(self._table.java), options).execute()
        self._table.java.refresh()
        return RewriteResult(int(result.rewrittenDeleteFilesCount()), int(result.addedDeleteFilesCount()))

    def rewrite_manifests(self) -> RewriteResult:
        """List the files of the table's partitioning in as few manifests as they fit into."""
        result = self._actions.rewriteManifests(self._table.java).execute()
        return RewriteResult(_count(result.rewrittenManifests()), _count(result.addedManifests()))

    def rewrite_every_manifest(self) -> None:
        """List all files anew, those of earlier partitionings too."""
        java = self._table.java
        for spec in list(java.specs().keySet()):
            java.refresh()
            self._actions.rewriteManifests(java).specId(int(spec)).execute()
        self._table.refresh()

    def count_values(self, snapshot: int | None, columns: Sequence[str]) -> int | None:
        """Count the distinct values of these columns as of a snapshot: the file's bytes; None: nothing was counted."""
        named = strings(self._jvm, *columns)
        file = self._actions.computeTableStats(self._table.java).snapshot(snapshot).columns(named).execute()
        found = file.statisticsFile()
        return None if found is None else int(found.fileSizeInBytes())

    def delete_orphans(self, older_than: int) -> int:
        """Delete files of the table's folder that no snapshot knows, from before a time in milliseconds since 1970."""
        with may_delete(self._session, self._table) as java:
            result = self._actions.deleteOrphanFiles(java).usePrefixListing(True).olderThan(older_than).execute()
        return _count(result.orphanFileLocations())

    def drop_useless_deletes(self) -> int:
        """Remove the delete files that concern no data file any more: Iceberg leaves some, and counts their rows."""
        java = self._table.java
        manifests = self._jvm.org.apache.iceberg.ManifestFiles
        if java.currentSnapshot().deleteManifests(java.io()).isEmpty():
            return 0
        with closing(java.newScan().planFiles()) as tasks:
            used = {str(delete.location()) for task in _each(tasks) for delete in task.deletes()}
        update, count = java.newRowDelta(), 0
        for manifest in java.currentSnapshot().deleteManifests(java.io()):
            with closing(manifests.readDeleteManifest(manifest, java.io(), java.specs())) as deletes:
                for delete in _each(deletes):
                    if str(delete.location()) not in used:
                        update, count = update.removeDeletes(delete.copy()), count + 1
        if count:
            update.commit()
        return count

    def deleted_shares(self, smallest: int) -> list[tuple[float, int]]:
        """List the data files of at least so many bytes with deletes of their own: share of rows deleted, and bytes."""
        found: list[tuple[float, int]] = []
        with closing(self._table.java.newScan().planFiles()) as tasks:
            for task in _each(tasks):
                file, deletes = task.file(), task.deletes()
                size = int(file.fileSizeInBytes())
                if size >= smallest and deletes.size():
                    gone = sum(int(delete.recordCount()) for delete in deletes)
                    found.append((min(1.0, gone / file.recordCount()), size))
        return found


def _each(iterable: Any) -> Iterator[Any]:
    """Yield the items of a Java Iterable that isn't a Collection."""
    found = iterable.iterator()
    while found.hasNext():
        yield found.next()


def _count(iterable: Any) -> int:
    return sum(1 for _ in _each(iterable))


def _with(action: Any, options: Mapping[str, object]) -> Any:
    for name, value in options.items():
        action = action.option(name, str(value))
    return action
