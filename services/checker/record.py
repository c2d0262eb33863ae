"""What checks have found and what is asked for, as the lake's tables say."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression, GreaterThanOrEqual, In
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, NestedField, StringType, TimestamptzType

from pipelines.lake.names import CHECK_REQUESTS, CHECK_RUNS, CHECKS, NAMESPACE
from services.stack.lake import own_table

# What was asked earlier than this ago, nobody waits for any more.
PATIENCE = timedelta(hours=1)
RUN = ("run", "table", "snapshot_id", "contract", "started_at", "seconds", "success", "asked", "failed", "not_asked",
        "request", "error")  # fmt: skip
_RESULT = ("run", "table", "name", "kind", "column", "success", "since", "elements", "unexpected", "observed", "error")
_REQUEST = Schema(
    NestedField(1, "id", StringType(), required=True),
    NestedField(2, "table", StringType(), required=True),
    NestedField(3, "full", BooleanType(), required=True),
    NestedField(4, "at", TimestamptzType(), required=True),
)
_ARROW = pa.schema([
    pa.field("id", pa.string(), nullable=False), pa.field("table", pa.string(), nullable=False),
    pa.field("full", pa.bool_(), nullable=False), pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
])  # fmt: skip


@dataclass(frozen=True)
class CheckResult:
    """One promise, as it was found.

    ``success`` None: it couldn't be asked. ``since``: only of what was written after these positions; ``elements``,
    ``unexpected``: rows asked, and of them those that broke it.
    """

    name: str
    kind: str
    column: str | None
    success: bool | None
    since: str | None
    elements: int | None
    unexpected: int | None
    observed: str | None
    error: str | None


@dataclass(frozen=True)
class CheckRun:
    """One table's checks.

    ``asked``: the promises that have an answer, of which ``failed`` are broken. ``not_asked``: those that have none,
    since the stream asks them of each value itself, or because asking failed. ``error``: why nothing could be asked.
    """

    run: str
    table: str
    snapshot_id: int
    contract: str
    started_at: datetime
    seconds: float
    success: bool
    asked: int
    failed: int
    not_asked: int
    request: str | None
    error: str | None
    results: tuple[CheckResult, ...] = ()

    @property
    def kept(self) -> int:
        """How many promises are known to be kept."""
        return self.asked - self.failed

    @property
    def couldnt_ask(self) -> bool:
        """Whether asking failed: of all promises, or of some while none is known to be broken."""
        return bool(self.error) or (not self.success and not self.failed)

    @property
    def verdict(self) -> str:
        """What came of it, in a few words."""
        if self.error or self.success:
            return self.error or f"{self.asked:,} promises kept"
        if not self.failed:
            return f"{self.asked:,} promises kept, and others couldn't be asked"
        return f"{self.failed:,} broken of {self.asked:,}"


@dataclass(frozen=True)
class Request:
    """What is asked for a table (``namespace.name`` of the lake).

    ``id`` None: by nobody, it is time; ``full``: of every row.
    """

    id: str | None
    table: str
    full: bool


def newest(catalog: Catalog, tables: Iterable[str] | None = None) -> dict[str, CheckRun]:
    """Return table to its newest run, without the results; ``tables``: only of these."""
    wanted = None if tables is None else In(term="table", literals=set(tables))
    found: dict[str, CheckRun] = {}
    for run in sorted(_runs(catalog, wanted), key=lambda run: run.started_at):
        found[run.table] = run
    return found


def history(catalog: Catalog, runs: int) -> list[CheckRun]:
    """Return the newest so many runs of each table that could ask something, without the results."""
    found: dict[str, list[CheckRun]] = {}
    for run in sorted(_runs(catalog, None), key=lambda run: run.started_at, reverse=True):
        if not run.error:
            found.setdefault(run.table, []).append(run)
    return [run for each in found.values() for run in each[:runs]]


def run_of(catalog: Catalog, run: str) -> CheckRun | None:
    """Return a run, without the results; None: there is none."""
    return next(_runs(catalog, In(term="run", literals={run})), None)


def answers(catalog: Catalog, requests: Iterable[str]) -> list[CheckRun]:
    """Return what was found for requests, so far."""
    return sorted(_runs(catalog, In(term="request", literals=set(requests))), key=lambda run: run.table)


def with_results(catalog: Catalog, runs: Iterable[CheckRun]) -> list[CheckRun]:
    """Return the runs, with what each found."""
    runs = list(runs)
    found: dict[str, list[CheckResult]] = {run.run: [] for run in runs}
    if runs:
        for row in _rows(catalog, CHECKS, _RESULT, In(term="run", literals=set(found))):
            found[row["run"]].append(CheckResult(**{n: row[n] for n in CheckResult.__dataclass_fields__}))
    return [CheckRun(**{**vars(run), "results": tuple(found[run.run])}) for run in runs]


def ask(catalog: Catalog, tables: Iterable[str], full: bool) -> list[Request]:
    """Ask for checks of these tables."""
    requests = [Request(str(uuid.uuid4()), table, full) for table in tables]
    if requests:
        now = datetime.now(UTC)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        table = catalog.create_table_if_not_exists((NAMESPACE, CHECK_REQUESTS), _REQUEST)
        table.append(pa.Table.from_pylist([{**vars(request), "at": now} for request in requests], _ARROW))
    return requests


def open_requests(catalog: Catalog) -> list[Request]:
    """Return what was asked lately and has no answer yet."""
    since = (datetime.now(UTC) - PATIENCE).isoformat()
    rows = list(_rows(catalog, CHECK_REQUESTS, ("id", "table", "full"), GreaterThanOrEqual(term="at", value=since)))
    done = {run.request for run in answers(catalog, [row["id"] for row in rows])} if rows else set()
    return [Request(**row) for row in rows if row["id"] not in done]


def requested(catalog: Catalog) -> int | None:
    """Return the newest snapshot of what is asked: another one, if something came since."""
    table = own_table(catalog, CHECK_REQUESTS)
    snapshot = table.current_snapshot() if table is not None else None
    return snapshot.snapshot_id if snapshot is not None else None


def document(catalog: Catalog, runs: Iterable[str]) -> Mapping[str, str]:
    """Run to Great Expectations' own result, as JSON."""
    rows = _rows(catalog, CHECK_RUNS, ("run", "document"), In(term="run", literals=set(runs)))
    return {row["run"]: row["document"] for row in rows if row["document"]}


def _runs(catalog: Catalog, where: BooleanExpression | None) -> Iterator[CheckRun]:
    for row in _rows(catalog, CHECK_RUNS, RUN, where):
        yield CheckRun(**row)


def _rows(
    catalog: Catalog, name: str, columns: tuple[str, ...], where: BooleanExpression | None
) -> list[dict[str, Any]]:
    table = own_table(catalog, name)
    if table is None:
        return []
    scan = table.scan(selected_fields=columns) if where is None else table.scan(where, selected_fields=columns)
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return found
