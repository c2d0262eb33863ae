"""The record of what checks have found, in two tables of the lake: a row a run, and a row an expectation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.kafka.ranges import Positions, parse_positions, positions_json
from pipelines.lake.catalog import Lake, optional_columns
from pipelines.lake.names import CHECK_RUNS, CHECKS, NAMESPACE
from pipelines.spark.dataframes import from_rows
from pipelines.sql import literal
from quality.validate import Result

RUN_COLUMNS = {
    "run": "string", "table": "string", "identity": "string", "snapshot_id": "long", "positions": "string",
    "contract": "string", "started_at": "timestamptz", "seconds": "double", "success": "boolean", "asked": "int",
    "failed": "int", "not_asked": "int", "request": "string", "error": "string", "document": "string",
}  # fmt: skip
RESULT_COLUMNS = {
    "run": "string", "table": "string", "name": "string", "kind": "string", "column": "string", "digest": "string",
    "success": "boolean", "since": "string", "elements": "long", "unexpected": "long", "observed": "string",
    "error": "string", "at": "timestamptz",
}  # fmt: skip
_SPARK_TYPES = {"timestamptz": "timestamp"}


@dataclass(frozen=True)
class Run:
    """One run of a table's checks.

    ``positions``: up to where the snapshot holds its topic; ``identity``: which of the tables it is that have had its
    name; ``results``: each with the positions since which it was checked, None: of the whole table; ``error``: why
    nothing could be checked; ``document``: for Data Docs.
    """

    id: str
    table: str
    identity: str
    snapshot_id: int
    positions: dict[int, int]
    contract: str
    started_at: datetime
    seconds: float
    results: tuple[tuple[Result, Positions | None], ...] = ()
    request: str | None = None
    error: str | None = None
    document: Mapping[str, Any] | None = None

    @property
    def success(self) -> bool:
        """Whether everything was checked that can be, and every promise is kept."""
        return self.error is None and all(result.success or result.expectation.protected for result, _ in self.results)

    @property
    def last(self) -> "PreviousRun":
        """The result that the next run goes on from."""
        met_digests = frozenset(result.expectation.digest for result, _ in self.results if result.success)
        return PreviousRun(self.identity, self.snapshot_id, self.positions, met_digests, self.success)


@dataclass(frozen=True)
class PreviousRun:
    """A table's last run without an error. ``met_digests``: the digests of the expectations that were met."""

    identity: str
    snapshot_id: int
    positions: dict[int, int]
    met_digests: frozenset[str]
    success: bool


class Record:
    """The two tables, written and read through a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._lake = spark, Lake(spark)

    def last(self, table: str) -> PreviousRun | None:
        """Return what the table's last run found; None: there was none."""
        if self._lake.table(NAMESPACE, CHECK_RUNS) is None or self._lake.table(NAMESPACE, CHECKS) is None:
            return None
        runs = self._spark.table(f"lake.{NAMESPACE}.{CHECK_RUNS}").where(f"table = {literal(table)} AND error IS NULL")
        newest = runs.orderBy(F.desc("started_at")).limit(1).collect()
        if not newest:
            return None
        (run,) = newest
        results = self._spark.table(f"lake.{NAMESPACE}.{CHECKS}").where(f"run = {literal(run.run)} AND success")
        met_digests = frozenset(row.digest for row in results.select("digest").collect())
        return PreviousRun(run.identity, run.snapshot_id, parse_positions(run.positions), met_digests, run.success)

    def add(self, runs: list[Run]) -> None:
        """Write runs, the results first, so that a run that is there has all of its own."""
        results = [_result_row(run, *found) for run in runs for found in run.results]
        if results:
            self._append(CHECKS, RESULT_COLUMNS, results, "What was found of each promise of a contract")
        self._append(
            CHECK_RUNS, RUN_COLUMNS, [_run_row(run) for run in runs], "When contracts were checked, and on what"
        )

    def _append(self, name: str, columns: Mapping[str, str], rows: list[tuple[Any, ...]], comment: str) -> None:
        if self._lake.table(NAMESPACE, name) is None:
            self._lake.create(NAMESPACE, name, optional_columns(**columns), {"comment": comment})
        types = ", ".join(f"`{column}` {_SPARK_TYPES.get(kind, kind)}" for column, kind in columns.items())
        frame = from_rows(self._spark, rows, types).coalesce(1)
        frame.writeTo(f"lake.{NAMESPACE}.{name}").append()


def _run_row(run: Run) -> tuple[Any, ...]:
    found = [result.success for result, _ in run.results]
    counts = len(found) - found.count(None), found.count(False), found.count(None)
    document = None if run.document is None else json.dumps(run.document)
    return (
        run.id, run.table, run.identity, run.snapshot_id, positions_json(run.positions), run.contract, run.started_at,
        run.seconds, run.success, *counts, run.request, run.error, document,
    )  # fmt: skip


def _result_row(run: Run, result: Result, since: Positions | None) -> tuple[Any, ...]:
    expectation = result.expectation
    return (
        run.id, run.table, expectation.name, expectation.kind, expectation.column, expectation.digest, result.success,
        None if since is None else positions_json(since), result.elements, result.unexpected, result.observed,
        result.error, run.started_at,
    )  # fmt: skip
