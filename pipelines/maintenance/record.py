"""The record of what was done for which table, and of what people request, in two tables of the lake."""

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from pipelines.lake.catalog import Lake, optional_columns
from pipelines.lake.names import MAINTENANCE, MAINTENANCE_REQUESTS, NAMESPACE
from pipelines.maintenance.keeper import Task
from pipelines.maintenance.plan import DueTask, RequestKind
from pipelines.spark.dataframes import from_rows

PATIENCE_MINUTES = 60
# The task of the row that ends what was done for a request.
ANSWERED = "answered"


HISTORY_SCHEMA = optional_columns(
    table="string", task="string", why="string", at="timestamptz", seconds="double", removed="long", added="long",
    bytes="long", files_before="long", files_after="long", snapshots_before="long", snapshots_after="long",
    request="string", error="string",
)  # fmt: skip
_COLUMNS = "table string, task string, why string, at timestamp, seconds double, removed long, added long, bytes long,\
 files_before long, files_after long, snapshots_before long, snapshots_after long, request string, error string"


class Record:
    """The table of what was done. Rows are collected until ``flush``, so that it isn't a table of small files too."""

    def __init__(self, spark: SparkSession) -> None:
        self._session, self._lake = spark.newSession(), Lake(spark)
        self._rows: list[tuple[object, ...]] = []

    def done(self, task: Task, request: str | None) -> None:
        """Note that a task was done."""
        self._rows.append((
            task.table, task.due.task, task.due.why, datetime.now(UTC), task.seconds, task.done.removed,
            task.done.added, task.done.bytes, task.before.files, task.after.files, task.before.snapshots,
            task.after.snapshots, request, None,
        ))  # fmt: skip

    def failed(self, table: str, due: DueTask, error: str, request: str | None) -> None:
        """Note that a task failed."""
        nothing = [None] * 8
        self._rows.append((table, due.task, due.why, datetime.now(UTC), *nothing, request, error))

    def answered(self, table: str, request: "Request") -> None:
        """Note that everything a request asked for was done, or tried."""
        nothing = [None] * 8
        self._rows.append((table, ANSWERED, None, datetime.now(UTC), *nothing, request.id, None))

    def flush(self) -> None:
        """Write what is new, in one commit. Raises what Spark raises; the rows stay then."""
        if not self._rows:
            return
        if self._lake.table(NAMESPACE, MAINTENANCE) is None:
            self._lake.create(NAMESPACE, MAINTENANCE, HISTORY_SCHEMA, {"comment": "What was done to keep tables small"})
        rows = from_rows(self._session, self._rows, _COLUMNS).coalesce(1)
        rows.writeTo(f"lake.{NAMESPACE}.{MAINTENANCE}").append()
        self._rows.clear()


@dataclass(frozen=True)
class Request:
    """A person's request for a table (``namespace.name``)."""

    id: str
    table: str
    kind: RequestKind


class Requests:
    """The requests that aren't done, as of the last ``refresh``."""

    def __init__(self, spark: SparkSession) -> None:
        self._session, self._lake = spark.newSession(), Lake(spark)
        self._snapshot: int | None = None
        self._closed: set[str] = set()
        self._open: dict[str, Request] = {}

    def refresh(self) -> None:
        """Look again, if anything has come since. What was requested long ago is left alone."""
        table = self._lake.table(NAMESPACE, MAINTENANCE_REQUESTS)
        if table is None or table.snapshot_id == self._snapshot:
            return
        requests = self._session.table(table.sql_name).where(
            f"at > current_timestamp() - interval {PATIENCE_MINUTES} minutes"
        )
        if (done := self._lake.table(NAMESPACE, MAINTENANCE)) is not None:
            history = (
                self._session.table(done.sql_name).where(F.col("task") == ANSWERED).select(F.col("request").alias("id"))
            )
            requests = requests.join(F.broadcast(history), "id", "left_anti")
        found = [Request(row.id, row.table, _kind(row)) for row in requests.collect() if row.id not in self._closed]
        self._open |= {request.table: request for request in found}
        self._snapshot = table.snapshot_id

    def of(self, table: str) -> Request | None:
        """Return the request for a table, if there is one."""
        return self._open.get(table)

    def tables(self) -> set[str]:
        """Return the tables for which there is a request."""
        return set(self._open)

    def close(self, request: Request) -> None:
        """Note that a request is dealt with."""
        self._closed.add(request.id)
        self._open.pop(request.table, None)


def _kind(row: Row) -> RequestKind:
    # The table may be from before anybody could ask for a purge.
    if row.asDict().get("purge"):
        return RequestKind.PURGE
    return RequestKind.EVERYTHING if row.everything else RequestKind.DUE
