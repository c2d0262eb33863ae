"""Compare derived tables with what their queries give, and print it as JSON: `python -m pipelines.derived TABLE…`."""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from pipelines.derived.proof import prove
from pipelines.log import json_log
from pipelines.protection.columns import ProtectedColumns
from pipelines.protection.crypto import keys_for
from pipelines.protection.functions import Vault
from pipelines.settings import MirrorSettings
from pipelines.spark.session import leave, start_session
from pipelines.specs.load import SpecError, load_specs
from quality import odcs
from quality.errors import ContractError


def main() -> int:
    """Compare the named tables, or all; 0 whatever is found, 2 where the specs can't be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--examples", type=int, default=10)
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
        proofs = [prove(spark, spec, ProtectedColumns(mine[spec.table], vault), asked.examples) for spec in chosen]
        json.dump([{**asdict(proof), "equal": proof.equal} for proof in proofs], told)
        told.close()
        spark.stop()
    return 0


if __name__ == "__main__":
    leave(main())
