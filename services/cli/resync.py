"""`lakehouse resync`: make tables equal to their source again where events were lost."""

from typing import Annotated

import typer

from services.cli.output import UNUSABLE, Because, expected_errors, fail, print_json, progress
from services.operations.audit_trail import audited
from services.operations.resync.resync import ResyncReport, plan
from services.operations.resync.resync import resync as run_resync
from services.operations.resync.streams import begin_anew, renewed_streams
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog

HELP = """Make tables equal to their source again where events were lost on the way.

The rows are read from the source again, and what the lake has beyond them (missed deletes) is removed. Readers see no
empty table, and the other tables go on. `--all` makes a new replication slot as well, for a slot that is lost or a
source that was restored; nothing is streamed while the whole source is read. The writers of a table without a key
wait while it is read, and the stream does. Examples:

    lakehouse resync orders public.customers

    lakehouse resync --all --dry-run

`--events` is for event streams whose topics were lost with Kafka, which have no source to read again: their tables keep
the rows that they have, and begin with the topics as they are now.
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("resync", help=HELP)
def resync(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`table` or `schema.table`.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="The whole source, by a new slot.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Event streams whose topics were renewed.")] = False,
    because: Because = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for all of it.")] = 3600.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which tables.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Read tables from the source again."""
    if events and not whole:
        _begin_anew(names or [], because, timeout, dry_run, as_json)
        return
    if bool(names) == whole or events:
        fail("say which tables, or --all, or --events (`lakehouse table list` shows them)", UNUSABLE, as_json)
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        if dry_run:
            chosen = [table.full_name for table in plan(settings, names or ())]
        else:
            target = "all" if whole else ", ".join(names or ())
            with audited(open_catalog(settings), "resync", target, because) as doing:
                done = run_resync(settings, names or (), whole, timeout, on_progress)
                doing.detail |= {"tables": len(done.tables), "rows_removed": sum(t.removed or 0 for t in done.tables)}
    if dry_run and as_json:
        print_json({"dry_run": True, "whole": whole, "tables": chosen})
    elif dry_run:
        out.print(f"Would be read again: {', '.join(chosen)}.")
    elif as_json:
        print_json(done.to_json())
    else:
        _print(done)


def _begin_anew(names: list[str], because: str | None, timeout: float, dry_run: bool, as_json: bool) -> None:
    """Have event streams begin anew with topics that were renewed."""
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        found = renewed_streams(settings, names)
        if found and not dry_run:
            with audited(open_catalog(settings), "resync", ", ".join(found), because) as doing:
                begin_anew(settings, tuple(found), timeout, on_progress)
                doing.detail |= {"tables": len(found), "why": "topics were renewed"}
    if as_json:
        print_json({"dry_run": dry_run, "begun_anew": found})
    elif not found:
        out.print("No stream's topic was renewed: nothing is to be done.")
    else:
        for name, why in found.items():
            out.print(f"{name} {'would begin' if dry_run else 'has begun'} anew: its topic {why}.")


def _print(done: ResyncReport) -> None:
    grid = Grid("table", title="Read from the source again")
    for name in ("rows read", "rows removed", "letters closed"):
        grid.add_column(name, justify="right")
    for table in done.tables:
        grid.add_row(table.table, f"{table.read:,}", f"{table.removed or 0:,}", f"{table.letters:,}")
    out.print(grid)
    out.print(f"Done in {done.seconds:.0f} s. `lakehouse verify` proves it.")
