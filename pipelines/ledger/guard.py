"""Unmoved: what goes on from a table's ledger is tied to it, so that nothing is accounted for twice if a second mirror
has committed to the table meanwhile. See infra/decisions/017-one-mirror-a-source.md.
"""

from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from pipelines.errors import RetryBatch
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Ledger, read_ledger

MOVED = "somebody else has committed to it since it was looked at"


def checked_snapshot(table: LakeTable, known: Ledger) -> int | None:
    """The table's newest snapshot, which is looked up, with a ledger that says what is ``known``; None: nothing was
    ever committed. Raises RetryBatch where it says something else.
    """
    table.refresh()
    if read_ledger(table.summaries()) != known:
        raise RetryBatch(f"{table.namespace}.{table.name}: {MOVED}")
    return table.snapshot_id


class LedgerGuard:
    """Asked by Iceberg whenever it tries to commit; of a commit that is laid over a snapshot with a ledger that doesn't
    say what is ``known`` nothing becomes, and it isn't tried again.
    """

    def __init__(self, table: LakeTable, known: Ledger) -> None:
        self._table, self._known = table, known
        ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]

    def validate(self, ancestors: Any) -> bool:
        """``ancestors``: Java's Iterable of the snapshots that it would be laid over, newest first."""
        return read_ledger(map(self._table.summary_of, ancestors.iterator())) == self._known

    def errorMessage(self) -> str:  # noqa: N802
        """What Iceberg's error says."""
        return MOVED

    class Java:
        """For Py4J."""

        implements: ClassVar = ["org.apache.iceberg.SnapshotAncestryValidator"]
