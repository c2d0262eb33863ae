"""`python -m services.checker`: the service."""

import logging
import sys

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from services.checker.service import CheckerService
from services.checker.settings import CheckerSettings
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop


def main() -> int:
    """Have tables checked until SIGTERM; the exit code."""
    log, meter = json_log(), Meter("checker")
    serve(meter, log)
    stop = Stop()
    stop.on_signals()
    # The catalog's server deletes a table's old metadata, and PyIceberg then complains that it's gone.
    logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)
    try:
        settings = CheckerSettings.load()
    except LakehouseError as error:
        log.error("the checker can't start", error=str(error))
        return 1
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    CheckerService(settings, stop, log, meter=meter).run()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
