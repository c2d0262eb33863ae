"""`python -m services.verifier`: the service."""

import logging
import os
import sys

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop
from services.verifier.service import Verifier
from services.verifier.settings import VerifierSettings


def main() -> int:
    """Verify until SIGTERM; the exit code. What is idle for long becomes a small process that only waits."""
    log, meter = json_log(), Meter("verifier")
    serve(meter, log)
    stop = Stop()
    stop.on_signals()
    # The catalog's server deletes a table's old metadata, and PyIceberg then complains that it's gone.
    logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)
    try:
        settings = VerifierSettings.load()
    except LakehouseError as error:
        log.error("the verifier can't start", error=str(error))
        return 1
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    rest = Verifier(settings, stop, log, meter=meter).run()
    if rest and not stop.asked:
        os.execv(sys.executable, [sys.executable, "-m", "services.verifier.idle", str(settings.state_dir), str(rest)])  # noqa: S606
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
