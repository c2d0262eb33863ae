"""`python -m services.console`: the service."""

import logging
import sys

import uvicorn

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.specs.load import SpecError, load_specs
from services.console.app import create_app
from services.console.context import Console
from services.console.house import House
from services.console.look.catalog import CatalogPart
from services.console.look.looker import Looker
from services.console.look.part import Part
from services.console.look.progress import ProgressPart
from services.console.look.records import AuditPart, ChecksPart, LettersPart, VerificationPart
from services.console.look.servers import AlertsPart, CapturePart, DiskPart, PrometheusPart
from services.console.settings import ConsoleSettings
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop


def main() -> int:
    """Look at the stack and answer until SIGTERM; the exit code."""
    log, stop, meter, house = json_log(), Stop(), Meter("console"), House()
    stop.on_signals()
    # The catalog's server deletes a table's old metadata, and PyIceberg then complains that it's gone.
    logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)
    try:
        settings, specs = ConsoleSettings.load(), load_specs()
    except (LakehouseError, SpecError) as error:
        log.error("the console can't start", error=str(error))
        return 1
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = [
        ProgressPart(settings, specs), CatalogPart(settings, specs), CapturePart(), LettersPart(settings),
        ChecksPart(settings), VerificationPart(settings), AuditPart(settings), PrometheusPart(settings.prometheus_url),
        AlertsPart(settings.alertmanager_url), DiskPart(settings.state_dir),
    ]  # fmt: skip
    Looker(parts, house, meter, stop, log).start()
    app = create_app(Console.of(settings, house, specs, log), meter, stop)
    server = uvicorn.Server(uvicorn.Config(
        app, host=settings.bind_address, port=settings.console_port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=3,
    ))  # fmt: skip
    log.info("started", port=settings.console_port)
    # Returns once asked to stop, and hands the signal on.
    server.run()
    stop.event.set()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
