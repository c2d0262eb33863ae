"""Compare derived tables with what their queries give, fill a range of one, or try another definition; as JSON.

`python -m pipelines.derived TABLE…`, `… TABLE --backfill`, `… TABLE --branch NAME --definition SPEC`.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.derived.backfill import backfill
from pipelines.derived.proof import prove
from pipelines.derived.trial import discard, try_out
from pipelines.errors import PipelineError
from pipelines.log import json_log
from pipelines.protection.columns import ProtectedColumns
from pipelines.protection.crypto import keys_for
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session
from pipelines.specs.derived import DerivedSpec
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError


def main() -> int:
    """Compare the named tables, or all, or fill one; 0 whatever is found, 2 where that can't be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--backfill", action="store_true")
    parser.add_argument("--by")
    parser.add_argument("--every", type=float, default=86_400)
    parser.add_argument("--from", dest="start")
    parser.add_argument("--to", dest="end")
    parser.add_argument("--branch")
    parser.add_argument("--definition", help="the spec to try, as JSON; without it the branch is removed")
    asked = parser.parse_args()
    # What Spark, Java and the log print goes where errors go.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    log = json_log()
    with tempfile.TemporaryDirectory() as state:
        # Beside the streams, which have their own driver.
        settings = MirrorSettings().model_copy(update={"state_dir": Path(state), "spark_driver_memory": "1g"})
        try:
            specs, contracts = load_specs(settings.specs), odcs.load(settings.contracts)
            chosen = [spec for spec in specs.derived.values() if not asked.tables or spec.table in asked.tables]
            mine = {spec.table: contracts.get(spec.name) for spec in chosen}
            keys = keys_for([each for each in mine.values() if each is not None], settings.protection_key)
        except (SpecError, ContractError) as error:
            log.error("bad_spec", error=str(error))
            return 2
        for name in ("PROTECTION_KEY", "SPARK_SECRET_KEY"):
            os.environ.pop(name, None)
        spark = start_session(settings, f"proof {settings.source_name}", ui=False)
        spark.sparkContext.setLogLevel("ERROR")
        vault = None if keys is None else Vault.of(spark, keys)
        protected = {spec.table: ProtectedColumns(mine[spec.table], vault) for spec in chosen}
        try:
            if asked.branch or asked.backfill:
                (spec,) = chosen
                for found in _work(spark, spec, protected[spec.table], asked):
                    print(json.dumps(found, default=str), file=told, flush=True)
        except PipelineError as error:
            log.error("not_filled", error=str(error))
            return 2
        if not (asked.branch or asked.backfill):
            proofs = [prove(spark, spec, protected[spec.table], asked.examples) for spec in chosen]
            json.dump([{**asdict(proof), "equal": proof.equal} for proof in proofs], told)
        told.close()
        spark.stop()
    return 0


def _work(
    spark: SparkSession, spec: DerivedSpec, protected: ProtectedColumns, asked: argparse.Namespace
) -> Iterator[Any]:
    """Fill a range, or try another definition; what was done. Raises PipelineError."""
    if asked.backfill:
        for piece in backfill(spark, spec, protected, asked.by, asked.every, asked.start, asked.end):
            yield asdict(piece)
    elif asked.definition is None:
        yield {"table": spec.table, "branch": asked.branch, "discarded": discard(spark, spec, protected, asked.branch)}
    else:
        tried = DerivedSpec.model_validate_json(asked.definition)
        yield asdict(try_out(spark, tried, protected, asked.branch, asked.examples))


if __name__ == "__main__":
    leave(main())
