"""`python -m services.shop`: make the shop's tables, load them, and let people shop."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import psycopg
import typer

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from pipelines.metrics.serve import serve
from services.shop import database, workload
from services.shop.display import loading, print_load, print_summary, shopping
from services.shop.errors import said
from services.shop.load import load as run_load
from services.shop.settings import ShopSettings
from services.shop.summary import Progress
from services.stack.errors import NotConfigured
from services.stack.stopping import Stop

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end, and nothing else.")]
Seed = Annotated[int, typer.Option(help="With the run's number, which counts up, it decides the whole history.")]
Scale = Annotated[float, typer.Option(min=0.001, help="1.0 is a little more than 200,000 rows.")]
Connections = Annotated[int, typer.Option(min=1, max=64, help="Connections that work side by side.")]


@app.command()
def setup() -> None:
    """Make the tables; repeatable."""
    with _errors() as settings, psycopg.connect(settings().dsn, autocommit=True) as connection:
        database.setup(connection)


@app.command()
def load(scale: Scale = 1.0, seed: Seed = 0, as_json: AsJson = False) -> None:
    """Load rows by COPY, after what is there already."""
    with _errors() as settings, loading(quiet=as_json) as on_rows:
        summary = run_load(settings().dsn, scale, seed, on_rows)
    print_load(summary, as_json)


@app.command()
def run(
    rate: Annotated[float | None, typer.Option(min=0.01, help="Transactions a second; SHOP_RATE if not given.")] = None,
    duration: Annotated[float | None, typer.Option(min=0.1, help="Seconds; endless if not given.")] = None,
    connections: Connections = 4,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run live transactions. SIGTERM and SIGINT end it with its summary."""
    with _errors() as settings, shopping(quiet=as_json) as on_progress:
        summary = workload.run(
            settings().dsn, rate or settings().shop_rate, duration, connections, seed, on_progress, _stop_on_signals()
        )
    print_summary(summary, as_json)


@app.command()
def start(connections: Connections = 4, scale: Scale = 0.1) -> None:
    """The endless workload at SHOP_RATE; an empty shop is loaded first."""
    with _errors() as settings, shopping(quiet=False) as on_progress:
        stop = _stop_on_signals()
        with psycopg.connect(settings().dsn, autocommit=True) as connection:
            database.setup(connection)
            empty = database.is_empty(connection)
        if empty:
            run_load(settings().dsn, scale)
        meter, done = Meter("shop"), 0
        serve(meter, json_log())

        def told(progress: Progress) -> None:
            nonlocal done
            meter.add("lakehouse_shop_transactions_total", progress.transactions - done)
            done = progress.transactions
            on_progress(progress)

        summary = workload.run(settings().dsn, settings().shop_rate, None, connections, 0, told, stop)
    print_summary(summary, as_json=False)


@app.command()
def reset() -> None:
    """Empty all tables."""
    with _errors() as settings, psycopg.connect(settings().dsn, autocommit=True) as connection:
        database.reset(connection)


@contextmanager
def _errors() -> Iterator[Callable[[], ShopSettings]]:
    """Turn what can be expected to go wrong into one line and exit code 2."""
    try:
        found = ShopSettings.load()
        yield lambda: found
    except NotConfigured as error:
        _fail(str(error))
    except psycopg.OperationalError as error:
        _fail(f"the shop's database doesn't answer: {said(error)}; see `make status` and `make logs s=source-db`")
    except psycopg.errors.UndefinedTable as error:
        _fail(f"{said(error)}; run `python -m services.shop setup`")
    except psycopg.Error as error:
        _fail(f"the shop's database refuses: {said(error)}")


def _fail(message: str) -> None:
    typer.echo(message, err=True)
    sys.exit(2)


def _stop_on_signals() -> threading.Event:
    stop = Stop()
    stop.on_signals()
    return stop.event


if __name__ == "__main__":
    app()
