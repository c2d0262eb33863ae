"""An Iceberg table, as a Spark session looked it up: what it is, and changes of it that need no Spark."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipelines.lake.properties import BY_PARTITION, DELETE_GRANULARITY
from pipelines.spark.session import CATALOG
from pipelines.sql import quote_path


class LakeTable:
    """A table of the lake as of its last look-up.

    ``branch``: what is read and written of it is there, where others don't see it; its schema and properties are the
    table's all the same.
    """

    def __init__(self, jvm: Any, namespace: str, name: str, table: Any, branch: str | None = None) -> None:
        self.namespace, self.name, self.branch, self._table = namespace, name, branch, table
        self.jvm = jvm
        # Each is read once, as a whole: every entry by itself would be a call into the JVM.
        self._properties: dict[str, str] | None = None
        self._columns: list[dict[str, Any]] | None = None

    @property
    def sql_name(self) -> str:
        """The table's name in Spark SQL, quoted."""
        branch = () if self.branch is None else (f"branch_{self.branch}",)
        return quote_path((CATALOG, self.namespace, self.name, *branch))

    @property
    def _head(self) -> Any:
        """Iceberg's newest Snapshot; None: nothing was ever committed."""
        return self._table.currentSnapshot() if self.branch is None else self._table.snapshot(self.branch)

    @property
    def branches(self) -> set[str]:
        """The table's branches and tags, by name."""
        return {str(name) for name in self._table.refs()}

    def on_branch(self, branch: str) -> "LakeTable":
        """Return this table, read and written on a branch that it has."""
        return LakeTable(self.jvm, self.namespace, self.name, self._table, branch)

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot; None: nothing was ever committed."""
        snapshot = self._head
        return None if snapshot is None else int(snapshot.snapshotId())

    @property
    def main_snapshot_id(self) -> int | None:
        """The snapshot that readers see, whatever branch this is on; None: nothing was ever published."""
        snapshot = self._table.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    @property
    def parent_snapshot_id(self) -> int | None:
        """The snapshot that the current one was laid over; None: there is none."""
        snapshot = self._head
        parent = None if snapshot is None else snapshot.parentId()
        return None if parent is None else int(parent)

    def file_tasks(self, bounded: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield each live data file with the files of deletes that concern it, in Iceberg's JSON form.

        Files have the bounds of the columns ``bounded``, and no other statistics.
        """
        if self._head is None:
            return
        iceberg = self.jvm.org.apache.iceberg
        scan = self._table.newScan().includeColumnStats(list(bounded))
        tasks = (scan if self.branch is None else scan.useRef(self.branch)).planFiles()
        try:
            iterator = tasks.iterator()
            while iterator.hasNext():
                yield json.loads(iceberg.ScanTaskParser.toJson(iterator.next()))
        finally:
            tasks.close()

    @property
    def java(self) -> Any:
        """Iceberg's own Table."""
        return self._table

    @property
    def snapshot_count(self) -> int:
        """How many snapshots are stored."""
        # A list in Java: gone over from here, each would be several calls.
        return len(self._table.snapshots())

    @property
    def manifest_count(self) -> int:
        """How many manifests the current snapshot has."""
        snapshot = self._table.currentSnapshot()
        return 0 if snapshot is None else int(snapshot.allManifests(self._table.io()).size())

    @property
    def uuid(self) -> str:
        """The table's id, whatever it is called."""
        return str(self._table.uuid())

    def operations_since(self, snapshot_id: int) -> list[tuple[str, dict[str, str]]] | None:
        """Return operation and summary of each snapshot of the main branch after this one, newest first.

        None: the snapshot isn't among its ancestors.
        """
        found, snapshot = [], self._table.currentSnapshot()
        while snapshot is not None and int(snapshot.snapshotId()) != snapshot_id:
            found.append((str(snapshot.operation()), self.summary_of(snapshot)))
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)
        return None if snapshot is None else found

    @property
    def summary(self) -> dict[str, str]:
        """The current snapshot's summary; {}: nothing was ever committed."""
        snapshot = self._head
        return {} if snapshot is None else self.summary_of(snapshot)

    def summary_of(self, snapshot: Any) -> dict[str, str]:
        """Return the summary of Iceberg's Snapshot."""
        return _entries(self.jvm, snapshot.summary())

    def snapshot_times(self) -> dict[int, int]:
        """Return snapshot to when it was made, in milliseconds since 1970."""
        return {int(snapshot.snapshotId()): int(snapshot.timestampMillis()) for snapshot in self._table.snapshots()}

    def untagged_times(self) -> list[int]:
        """Return when the snapshots were made that no tag keeps, in milliseconds since 1970."""
        tagged = {int(ref.snapshotId()) for ref in dict(self._table.refs()).values() if ref.isTag()}
        return [made for snapshot, made in self.snapshot_times().items() if snapshot not in tagged]

    @property
    def counted_at(self) -> int | None:
        """When the newest snapshot was made that has statistics, in milliseconds since 1970; None: there is none."""
        times = self.snapshot_times()
        of = (int(file.snapshotId()) for file in self._table.statisticsFiles())
        return max((times[snapshot] for snapshot in of if snapshot in times), default=None)

    @property
    def last_changed(self) -> float:
        """When the table was last changed, by the clock of whoever did: seconds since 1970."""
        return float(self._table.operations().current().lastUpdatedMillis()) / 1000

    @property
    def properties(self) -> dict[str, str]:
        """Table properties."""
        if self._properties is None:
            self._properties = _entries(self.jvm, self._table.properties())
        return self._properties

    @property
    def column_types(self) -> dict[str, str]:
        """Column name to Iceberg type, as Iceberg prints it."""
        return {column["name"]: self._printed(column) for column in self.columns}

    @property
    def comments(self) -> dict[str, str | None]:
        """Column name to its comment."""
        return {column["name"]: column.get("doc") for column in self.columns}

    def _printed(self, column: Mapping[str, Any]) -> str:
        name, kind = column["name"], column["type"]
        return kind if isinstance(kind, str) else str(self._table.schema().findType(name).toString())

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns in Iceberg's JSON form."""
        if self._columns is None:
            text = self.jvm.org.apache.iceberg.SchemaParser.toJson(self._table.schema())
            self._columns = json.loads(text)["fields"]
        return self._columns

    @property
    def identity(self) -> tuple[str, int]:
        """The table's location and the id of the schema that it has now."""
        return str(self._table.location()), int(self._table.schema().schemaId())

    @property
    def deletes_together(self) -> bool:
        """Whether the deletes of a partition are written to one file, not to one for each data file."""
        return self.properties.get(DELETE_GRANULARITY) == BY_PARTITION

    @property
    def partitioned(self) -> bool:
        """Whether what is written now goes to partitions."""
        return bool(self._table.spec().isPartitioned())

    @property
    def rows(self) -> int:
        """The rows of its data files, deleted ones included."""
        return int(self.summary.get("total-records", 0))

    @property
    def first_columns(self) -> set[str]:
        """The columns that the table has had since it was made, by the names that they have now."""
        schemas = self._table.schemas()
        first = schemas.get(min(schemas.keySet()))
        return {
            field.name() for field in self._table.schema().columns() if first.findField(field.fieldId()) is not None
        }

    def may_hold(self, between: Mapping[str, tuple[Any, Any]]) -> bool:
        """Return whether the table may have rows with a value between two in each of these columns.

        The bounds of its files tell.
        """
        expressions = self.jvm.org.apache.iceberg.expressions.Expressions
        condition = expressions.alwaysTrue()
        for column, (low, high) in between.items():
            for limit in (expressions.greaterThanOrEqual(column, low), expressions.lessThanOrEqual(column, high)):
                condition = getattr(expressions, "and")(condition, limit)
        scan = self._table.newScan().filter(condition)
        files = (scan if self.branch is None else scan.useRef(self.branch)).planFiles()
        try:
            return bool(files.iterator().hasNext())
        finally:
            files.close()

    def set_properties(self, properties: Mapping[str, str], remove: Iterable[str] = ()) -> None:
        """Set and remove table properties, in one commit."""
        _update_properties(self._table, properties, remove)
        self._forget()

    def refresh(self) -> None:
        """Look the table up anew."""
        self._table.refresh()
        self._forget()

    def _forget(self) -> None:
        self._properties = self._columns = None

    def alter(
        self, steps: Sequence[Callable[[Any], Any]], properties: Mapping[str, str], remove: Iterable[str] = ()
    ) -> None:
        """Change the schema, set properties and remove some, in one commit, which is seen at once.

        ``steps``: each takes Iceberg's UpdateSchema and gives it back with changes, and sees what the one before did.
        """
        transaction = self._table.newTransaction()
        for step in steps:
            step(transaction.updateSchema()).commit()
        _update_properties(transaction, properties, remove)
        transaction.commitTransaction()
        self.refresh()

    def commit_nothing(self, summary: Mapping[str, str], tidy: bool = False, validator: Any = None) -> None:
        """Commit a snapshot that changes no row and carries ``summary``.

        ``tidy``: it leaves delete files out which no data file needs any more, and merges manifests where there are
        many. ``validator``: Iceberg's SnapshotAncestryValidator, which says whether it may be laid over what is there.
        """
        append = self._table.newAppend() if tidy else self._table.newFastAppend()
        self.labelled(append, summary, validator).commit()

    def labelled(self, update: Any, summary: Mapping[str, str], validator: Any = None) -> Any:
        """Return Iceberg's update with ``summary``, on this branch. ``validator``: as for :meth:`commit_nothing`."""
        if validator is not None:
            update = update.validateWith(validator)
        for key, value in summary.items():
            update = update.set(key, value)
        return update if self.branch is None else update.toBranch(self.branch)

    def summaries(self) -> Iterator[dict[str, str]]:
        """Yield snapshot summaries from the current snapshot back along its ancestors."""
        snapshot = self._head
        while snapshot is not None:
            yield self.summary_of(snapshot)
            parent = snapshot.parentId()
            snapshot = None if parent is None else self._table.snapshot(parent)


def _entries(jvm: Any, java_map: Any) -> dict[str, str]:
    """Return a Java map of texts as a dictionary, by one call."""
    found: dict[str, str] = json.loads(jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(java_map))
    return found


def strings(jvm: Any, *values: str) -> Any:
    """Return a Java array of texts."""
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def _update_properties(of: Any, properties: Mapping[str, str], remove: Iterable[str]) -> None:
    """Set and remove properties, in one commit of a table's or of its transaction's."""
    update = of.updateProperties()
    for key, value in properties.items():
        update = update.set(key, value)
    for key in remove:
        update = update.remove(key)
    update.commit()
