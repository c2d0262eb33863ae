"""`lakehouse check`: whether tables keep what their contracts promise."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer
from pyiceberg.catalog import Catalog

from pipelines.lake.names import lake_table
from pipelines.specs.load import load_specs
from quality import odcs
from services.checker import record
from services.checker.record import CheckResult, CheckRun
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, print_json, progress
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.progress import OnProgress, Progress

HELP = """Have tables checked for what their contracts promise; exit code 1 if a promise is broken.

The checker does this by itself, from time to time. Of each row by itself it asks only rows that were written since;
`--full` asks all again. `--last` asks nothing, and shows what is known. Examples:

    lakehouse check orders order_items

    lakehouse check --last --json
"""
POLL_SECONDS = 1.0
app = typer.Typer(rich_markup_mode="markdown")


@app.command("check", help=HELP)
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`orders` or `public.orders`.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Ask of every row.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Only show what was found last.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the checker.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check tables."""
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        catalog = open_catalog(settings)
        tables = _tables(settings, names or [], as_json)
        if last:
            runs = [run for _, run in sorted(record.newest(catalog, tables).items())]
        else:
            runs = _checked(catalog, tables, full, timeout, on_progress, lambda text: fail(text, UNUSABLE, as_json))
        found = record.with_results(catalog, runs)
    if as_json:
        print_json({"tables": [asdict(run) for run in found], "kept": all(run.success for run in found)})
    else:
        _print(found)
    if not all(run.success for run in found):
        raise typer.Exit(CHECK_FAILED)


def _tables(settings: StackSettings, names: list[str], as_json: bool) -> list[str]:
    """Return what the lake calls the named tables, or all that have a contract."""
    contracts = odcs.load()
    wanted = {name: [t for t in contracts if name in (t[1], ".".join(t))] for name in names}
    for name, found in wanted.items():
        if not found:
            fail(f"{name} has no contract. `lakehouse contract init {name}` writes one.", UNUSABLE, as_json)
    chosen = [table for found in wanted.values() for table in found] if names else list(contracts)
    specs = load_specs()
    return [".".join(lake_table(specs, settings.source_name, table)) for table in chosen]


def _checked(
    catalog: Catalog, tables: list[str], full: bool, timeout: float, on_progress: OnProgress,
    give_up: Callable[[str], None],
) -> list[CheckRun]:  # fmt: skip
    requests = record.ask(catalog, tables, full)
    deadline = time.monotonic() + timeout
    while True:
        found = record.answers(catalog, [request.id for request in requests if request.id])
        on_progress(Progress("checks", "waiting for the checker", len(found), len(requests)))
        if len(found) == len(requests):
            return found
        if time.monotonic() > deadline:
            left = ", ".join(sorted({request.table for request in requests} - {run.table for run in found}))
            give_up(f"not done after {timeout:.0f} s: {left}. Does the checker run (`make status`, `make logs`)?")
        time.sleep(POLL_SECONDS)


def _print(found: list[CheckRun]) -> None:
    if not found:
        out.print("Nothing was checked yet.")
    for run in found:
        out.print(f"{run.table}, contract {run.contract}, snapshot {run.snapshot_id}: {run.verdict}")
        broken = [result for result in run.results if not result.success]
        if broken:
            grid = Grid("promise", "rows asked", "of them broken", "")
            for result in broken:
                grid.add_row(result.name, _number(result.elements), _number(result.unexpected), _said(result))
            out.print(grid)


def _said(result: CheckResult) -> str:
    if result.error:
        return f"not asked: {result.error}"
    return f"found {result.observed}" if result.observed is not None else ""


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
