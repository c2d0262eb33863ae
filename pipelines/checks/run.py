"""Run the checks of one table's contract on a pinned snapshot.

An expectation of each row by itself that was met at the last run is checked only on rows that changes have written
since. Everything else is checked on the whole table. What may look at other tables is checked twice before it counts as
broken, on snapshots of its own: tables are committed one by one, and a moment later what was missing is there.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipelines.checks.record import PreviousRun, Run
from pipelines.errors import one_line
from pipelines.kafka.ranges import Positions
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import read_ledger
from pipelines.ledger.rows import written_before
from pipelines.protection.columns import column_protections
from pipelines.spark.dataframes import persisted
from pipelines.spark.session import CATALOG
from pipelines.sql import quote_path
from quality.contract import Contract
from quality.suites import Expectation, suite
from quality.validate import Result, Validation, validate


@dataclass(frozen=True)
class Checker:
    """Checks tables through a session. ``await_others``: lets other tables come as far as this one."""

    spark: SparkSession
    await_others: Callable[[], None]

    def run(
        self, name: tuple[str, str], contract: Contract | None, last: PreviousRun | None, request: str | None = None
    ) -> Run:
        """Check a table (its namespace and name in the lake). Never raises what is wrong with the table alone."""
        nothing = Run(str(uuid.uuid4()), ".".join(name), "", 0, {}, "", datetime.now(UTC), 0.0, request=request)
        table = Lake(self.spark).table(*name)
        if contract is None:
            return replace(nothing, error="the table has no contract")
        if table is None or table.snapshot_id is None:
            return replace(nothing, error="the lake hasn't got the table yet")
        return replace(self.ask(table, contract, last), request=request)

    def ask(self, table: LakeTable, contract: Contract, last: PreviousRun | None) -> Run:
        """Check a table that has a snapshot, on its branch if it is on one."""
        at, snapshot = time.monotonic(), table.snapshot_id
        assert snapshot is not None
        run = Run(
            str(uuid.uuid4()), f"{table.namespace}.{table.name}", table.identity[0], snapshot,
            read_ledger(table.summaries()).positions, contract.version, datetime.now(UTC), 0.0,
        )  # fmt: skip
        try:
            found, document = self._check(table, contract, last)
        except PySparkException as error:
            return replace(run, seconds=time.monotonic() - at, error=one_line(error))
        return replace(run, seconds=time.monotonic() - at, results=found, document=document)

    def _check(
        self, table: LakeTable, contract: Contract, last: PreviousRun | None
    ) -> tuple[tuple[tuple[Result, Positions | None], ...], dict[str, object]]:
        protected = {name: entry.how for name, entry in column_protections(table.properties).items()}
        promised = suite(contract, table.column_types.keys(), protected)
        every = [expectation for expectation in promised if expectation.protected is None]
        # Rows that are computed have no position, so all of them are asked.
        since = last.positions or None if last is not None and last.identity == table.identity[0] else None
        again = {e.name for e in every if since is not None and e.of_rows and last and e.digest in last.met_digests}
        found: dict[str, tuple[Result, Positions | None]] = {
            e.name: (Result(e, None, error=f"{e.protected}; the stream asks it of the value itself"), None)
            for e in promised
            if e.protected is not None
        }
        documents = []
        whole = self._at(table, table.snapshot_id)
        if again:
            assert since is not None
            with persisted(whole.where(f"NOT ({written_before(since)})")) as news:
                validation = validate(news, [e for e in every if e.name in again], table.name)
            documents.append(validation.document)
            found |= {result.expectation.name: (result, since) for result in validation.results}
        rest = [expectation for expectation in every if expectation.name not in again]
        if rest:
            validation = self._check_twice(table, whole, rest)
            documents.append(validation.document)
            found |= {result.expectation.name: (result, None) for result in validation.results}
        return tuple(found[e.name] for e in promised), _together(documents)

    def _check_twice(self, table: LakeTable, whole: DataFrame, expectations: Sequence[Expectation]) -> Validation:
        first = validate(whole, expectations, table.name)
        doubtful = [r.expectation for r in first.results if r.success is False and r.expectation.others]
        if not doubtful:
            return first
        self.await_others()
        table.refresh()
        second = validate(self._at(table, table.snapshot_id), doubtful, table.name)
        answers = {result.expectation.name: result for result in second.results}
        results = tuple(answers.get(result.expectation.name, result) for result in first.results)
        repeated = {result.expectation.name for result in second.results}
        others = [each for each in first.document["results"] if _name(each) not in repeated]
        document = {**first.document, "results": [*others, *second.document["results"]]}
        return Validation(results, _together([document]))

    def _at(self, table: LakeTable, snapshot: int | None) -> DataFrame:
        assert snapshot is not None
        name = quote_path((CATALOG, table.namespace, table.name))
        return self.spark.sql(f"SELECT * FROM {name} VERSION AS OF {snapshot:d}")


def _name(result: dict[str, object]) -> object:
    config = result["expectation_config"]
    assert isinstance(config, dict)
    return config["meta"]["promise"]


def _together(documents: list[dict[str, object]]) -> dict[str, object]:
    """Merge several documents into one, with its statistics."""
    results = [each for document in documents for each in document["results"]]  # type: ignore[attr-defined]
    met = sum(bool(each["success"]) for each in results)
    counts = {
        "evaluated_expectations": len(results), "successful_expectations": met,
        "unsuccessful_expectations": len(results) - met,
        "success_percent": 100 * met / len(results) if results else None,
    }  # fmt: skip
    return {**documents[-1], "results": results, "success": met == len(results), "statistics": counts}
