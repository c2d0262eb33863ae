"""`lakehouse backfill`: compute a range of a derived table once more, piece by piece."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines.specs.duration import seconds
from pipelines.specs.load import load_specs
from services.cli.output import UNUSABLE, expected_errors, fail, print_json, progress
from services.cli.trial import try_definition
from services.operations.audit_trail import audited
from services.stack.console import Grid, err, out
from services.stack.derived_tables import compute, named
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.stack.progress import Progress

HELP = """Compute a range of a derived table once more, piece by piece, beside the process that keeps it.

Each piece is one commit of what differs; what is right stays as it is. A run that was stopped is begun again with
--from where it was. Event streams need none: what their tables lack of a topic they bring in by themselves. Examples:

    lakehouse backfill iot.readings_1m --from 2026-11-01 --to 2026-12-01 --every "6 hours"

    lakehouse backfill marts.customer_360 --every 10000 --json

With --branch another definition is tried beside the one that readers see, of the same snapshots of its inputs, and
compared: which rows and columns differ.

    lakehouse backfill marts.daily_sales --branch net --spec net.yaml

    lakehouse backfill marts.daily_sales --branch net --discard
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("backfill", help=HELP)
def backfill(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="`marts.daily_sales`.")],
    start: Annotated[str, typer.Option("--from", help="From this value on: a date, a time, or a number.")] = "",
    end: Annotated[str, typer.Option("--to", help="Before this value.")] = "",
    by: Annotated[str, typer.Option(help="The key's column by which pieces are made; by itself the first.")] = "",
    every: Annotated[str, typer.Option(help="How much of it a piece has: a duration, or a number.")] = "1 day",
    branch: Annotated[str, typer.Option(help="Try --spec on this branch of the table, and compare.")] = "",
    spec: Annotated[Path | None, typer.Option(help="The spec to try.")] = None,
    discard: Annotated[bool, typer.Option("--discard", help="Remove the branch.")] = False,
    because: Annotated[str | None, typer.Option(help="Why, for the audit trail.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Fill a range."""
    if bool(branch) != (discard or spec is not None) or (discard and spec is not None):
        fail("--branch goes with either --spec FILE or --discard, and these with --branch.", UNUSABLE, as_json)
    if branch:
        with expected_errors(as_json):
            (table,) = named(load_specs(), [name])
            try_definition(table, branch, spec, because, as_json)
        return
    try:
        size = float(every) if every.replace(".", "", 1).isdigit() else seconds(every)
    except ValueError as error:
        fail(f"--every: {error}", UNUSABLE, as_json)
    pieces: list[dict[str, Any]] = []
    with expected_errors(as_json), progress(not as_json) as on_progress:
        tables = named(load_specs(), [name])
        options = {"--from": start, "--to": end, "--by": by}
        given = [part for option, value in options.items() if value for part in (option, value)]
        with audited(open_catalog(StackSettings.load()), "backfill", tables[0], because) as doing:
            for line in compute([tables[0], "--backfill", "--every", str(size), *given]):
                pieces.append(piece := json.loads(line))
                told = f"{piece['by'] or 'all'} before {piece['end'] or 'the end'}"
                on_progress(Progress(tables[0], told, len(pieces)))
                if not (as_json or err.is_terminal):
                    err.print(f"{tables[0]}: {told}: {_counts(piece)}")
            doing.detail["pieces"] = len(pieces)
    if as_json:
        print_json({"table": tables[0], "pieces": pieces})
    else:
        _print(tables[0], pieces)


def _counts(piece: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in piece["written"].items())


def _print(table: str, pieces: list[dict[str, Any]]) -> None:
    grid = Grid("from", "before", title=f"{table}, computed once more")
    for what in ("inserted", "updated", "deleted"):
        grid.add_column(what, justify="right")
    changed = [piece for piece in pieces if any(piece["written"].values())]
    for piece in changed:
        grid.add_row(str(piece["start"] or "-"), str(piece["end"] or "-"),
                     *(f"{count:,}" for count in piece["written"].values()))  # fmt: skip
    if changed:
        out.print(grid)
    out.print(f"{len(pieces):,} pieces, of which {len(changed):,} had anything to be changed.")
