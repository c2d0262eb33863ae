"""Check tables once, and end: `python -m pipelines.checks JOBS`.

The service `checker` runs it when something is due. Spark is only there while checks run: between two rounds nothing of
them takes memory.
"""

import sys
import time

from structlog.stdlib import BoundLogger

from pipelines.checks.jobs import JOBS, Job
from pipelines.checks.record import Record, Run
from pipelines.checks.run import Checker
from pipelines.lake.names import lake_table
from pipelines.log import json_log
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError

# Two commits of each table, as fresh as they are to be, with what a batch takes; but nobody waits longer.
LONGEST_WAIT_SECONDS = 60.0


def check(jobs: list[Job]) -> None:
    """Check tables, and record the results."""
    log, settings = json_log(), MirrorSettings()
    try:
        specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
    except (SpecError, ContractError) as error:
        log.error("bad_spec", error=str(error))
        leave(1)
    spark = start_session(settings, f"checks {settings.source_name}", ui=False)
    spark.sparkContext.setLogLevel("WARN")
    record = Record(spark)
    seconds = min(2 * specs.default_freshness + 5, LONGEST_WAIT_SECONDS)
    checker = Checker(spark, lambda: time.sleep(seconds))
    for job in jobs:
        schema, _, table = job.table.partition(".")
        mirrored = lake_table(specs, settings.source_name, (schema, table))
        last = None if job.full else record.last(".".join(mirrored))
        run = checker.run(mirrored, contracts.get((schema, table)), last, job.request)
        record.add([run])
        _log_run(log, run)
    spark.stop()
    leave(0)


def _log_run(log: BoundLogger, run: Run) -> None:
    broken = {r.expectation.name: r.unexpected for r, _ in run.results if r.success is False}
    failed = {r.expectation.name: r.error for r, _ in run.results if r.success is None}
    fields = {
        "table": run.table,
        "snapshot": run.snapshot_id,
        "asked": len(run.results),
        "ms": round(run.seconds * 1000),
    }
    if run.success:
        log.info("checked", **fields)
    else:
        log.error("check_failed", **fields, broken=broken, not_asked=failed, error=run.error)


if __name__ == "__main__":
    check(JOBS.validate_json(sys.argv[1]))
