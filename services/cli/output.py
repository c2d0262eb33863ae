"""How commands speak: tables and progress for people, JSON for programs, and one exit code for each outcome."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, NoReturn

import duckdb
import typer
from confluent_kafka import KafkaException
from pyiceberg.exceptions import RESTError
from requests.exceptions import RequestException
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from pipelines.sources.base.errors import SourceError
from pipelines.specs.load import SpecError
from quality.errors import ContractError
from services.stack.console import err
from services.stack.errors import LakehouseError, NotCaughtUp
from services.stack.progress import OnProgress
from services.stack.progress import Progress as Step

CHECK_FAILED, UNUSABLE = 1, 2
Because = Annotated[str | None, typer.Option(help="Why; it is kept, see `lakehouse audit`.")]
# Of a command that isn't carried out without a reason: see `need_reason`.
NeededBecause = Annotated[str, typer.Option(help="Why; it is kept.")]

# The catalog deletes old metadata itself, and PyIceberg warns that it couldn't do so as well.
logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)


def print_json(data: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def fail(message: str, code: int, as_json: bool = False, **more: Any) -> NoReturn:
    """Say what went wrong, and leave. ``more``: what else is in the JSON document."""
    if as_json:
        print_json({"error": message, **more})
    err.print(Text.assemble(("✗ ", "bold red"), message) if err.is_terminal else message)
    raise typer.Exit(code)


def need_reason(because: str, as_json: bool) -> None:
    """Leave where no reason is given."""
    if not because.strip():
        fail("--because needs a reason", UNUSABLE, as_json)


@contextmanager
def expected_errors(as_json: bool = False) -> Iterator[None]:
    """Turn what can be expected to go wrong into a message and an exit code, never a traceback."""
    try:
        yield
    except NotCaughtUp as error:
        fail(str(error), CHECK_FAILED, as_json, held=error.held)
    except (LakehouseError, SpecError, ContractError) as error:
        fail(str(error), UNUSABLE, as_json)
    except SourceError as error:
        fail(f"{error.kind}: {error.sentence}. See `make status`.", UNUSABLE, as_json)
    except (KafkaException, RESTError, RequestException, duckdb.Error) as error:
        fail(f"{type(error).__module__.split('.')[0]}: {str(error).strip()}. See `make status`.", UNUSABLE, as_json)


@contextmanager
def progress(shown: bool) -> Iterator[OnProgress]:
    """Show a line of progress on standard error where that is a terminal; elsewhere silence."""
    if not (shown and err.is_terminal):
        yield lambda _step: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None, count="")
        yield _shower(bar, task)


def _shower(bar: Progress, task: Any) -> Callable[[Step], None]:
    def show(step: Step) -> None:
        total = max(step.total, step.done) if step.total else None
        count = f"{step.done:,}" + (f" of ~{total:,}" if total else "") if step.done or total else ""
        bar.update(task, description=f"{step.subject}: {step.stage}", completed=step.done, total=total, count=count)

    return show
