"""`python -m services.capture`: the service (`run`), the source's preparation as SQL (`sql`), a look (`status`)."""

import sys

import typer

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from pipelines.sources.base.errors import SourceError
from pipelines.sources.kinds import preparation_sql
from services.capture.connect import Connect
from services.capture.settings import CaptureSettings, SourceSettings
from services.capture.source import Source
from services.capture.status import report
from services.capture.watch import Watcher
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def run() -> None:
    """Prepare the source, register the connector, and watch it until SIGTERM."""
    log, meter = json_log(), Meter("capture")
    stop = Stop()
    stop.on_signals()
    serve(meter, log)
    try:
        settings = CaptureSettings.load()
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        with Connect(settings.connect_url) as connect:
            Watcher(Source(settings), connect, stop, log, meter=meter).run()
    except LakehouseError as error:
        if not stop.asked:
            log.error("capture can't go on", error=str(error))
            raise typer.Exit(1) from None
    log.info("stopped")


@app.command()
def sql() -> None:
    """Print the SQL that prepares a source, for an administrator to run by hand. Replace PASSWORD in it."""
    try:
        settings = SourceSettings.load()
    except LakehouseError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(preparation_sql(settings.schemas, password="PASSWORD", owner=settings.source_db_owner))  # noqa: S106


@app.command()
def status() -> None:
    """Print connector, slot and tables as one JSON document. Exit code 1 if changes don't flow."""
    try:
        found = report()
    except (LakehouseError, SourceError) as error:
        typer.echo(" ".join(str(error).split()), err=True)
        raise typer.Exit(2) from None
    typer.echo(found.model_dump_json(indent=2))
    sys.exit(0 if found.healthy else 1)


if __name__ == "__main__":
    app()
