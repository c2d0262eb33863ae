"""A condition that Iceberg asks whenever it tries to commit."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from pipelines.lake.table import LakeTable


class AncestryValidator:
    """Lets a commit be laid over snapshots that are accepted, and over no others; then it isn't tried again.

    ``accepts`` is given the snapshots' summaries, newest first; ``why`` is what Iceberg's error says.
    """

    def __init__(
        self,
        table: LakeTable,
        accepts: Callable[[Iterator[dict[str, str]]], bool],
        why: str,
    ) -> None:
        self._table, self._accepts, self._why = table, accepts, why
        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]

    def validate(self, ancestors: Any) -> bool:
        """Answer Iceberg. ``ancestors``: Java's Iterable of the snapshots that the commit would be laid over."""
        return self._accepts(map(self._table.summary_of, ancestors.iterator()))

    def errorMessage(self) -> str:  # noqa: N802
        """Return what Iceberg's error says."""
        return self._why

    class Java:
        """The Java interface that this implements, for py4j."""

        implements: ClassVar = ["org.apache.iceberg.SnapshotAncestryValidator"]


class UnchangedValidator(AncestryValidator):
    """Lets a commit be laid over nothing but what the table was when it was looked up."""

    def __init__(self, table: LakeTable, why: str) -> None:
        super().__init__(table, lambda _: True, why)
        self._snapshot = table.snapshot_id

    def validate(self, ancestors: Any) -> bool:
        """Answer Iceberg. ``ancestors``: Java's Iterable of the snapshots that the commit would be laid over."""
        snapshots = ancestors.iterator()
        newest = int(snapshots.next().snapshotId()) if snapshots.hasNext() else None
        return newest == self._snapshot
