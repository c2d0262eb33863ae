"""`lakehouse erase`: every copy of a row that its source hasn't got any more."""

from dataclasses import asdict
from typing import Annotated

import typer

from services.cli.output import CHECK_FAILED, Because, expected_errors, print_json, progress
from services.operations.audit_trail import audited
from services.operations.erase.copy import Copy
from services.operations.erase.erase import erasure, fingerprint, subject
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog

HELP = """Remove every copy of a row that its source hasn't got any more: the right to erasure.

Delete the row in the source first; the lake follows. This removes what is left of it: records of the table's topic,
dead letters in their table and topic, rows in data files and older snapshots of the table, of what roles are shown of
it, and keys that verification has noted. It reads every file afterwards, and says where something is left and until
when; exit code 1 then. The same again goes on where it ended. ROW is the key, or columns and values.

Older snapshots of the table are given up, all of them, with its tags; and the topic's records up to now, of all rows.
Rows of other tables that told of the same person are rows of their own. Examples:

    lakehouse erase customers 42 --dry-run

    lakehouse erase customers 42 --because "asked for on 12 May"

    lakehouse erase addresses customer_id=42
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("erase", help=HELP)
def erase(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="`orders` or `shop.orders`.")],
    row: Annotated[str, typer.Argument(metavar="ROW", help="`42`, or `column=value,column=value`.")],
    because: Because = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say where there are copies.")] = False,
    doubtful: Annotated[
        bool, typer.Option("--doubtful", help="Erase the table's dead letters, too, that nobody can read.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the mirror, a table.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Erase a row's copies."""
    done: list[Copy] = []
    with expected_errors(as_json), progress(not as_json) as on_progress:
        settings = StackSettings.load()
        catalog = open_catalog(settings)
        found = subject(catalog, settings, table, row)
        with erasure(settings, catalog, found, timeout, doubtful, on_progress) as erasing:
            if dry_run:
                done = erasing.look()
            else:
                target = f"{found.table.full_name}, {fingerprint(found, settings)}"
                with audited(catalog, "erase", target, because) as doing:
                    for copy in erasing.run():
                        done.append(copy)
                        doing.detail["copies"] = {copy.where: _state(copy) for copy in done}
    left = [copy for copy in done if not copy.gone]
    if as_json:
        print_json({"table": found.table.full_name, "dry_run": dry_run, "erased": not left and not dry_run,
                    "copies": [asdict(copy) for copy in done]})  # fmt: skip
    else:
        _print(done, dry_run)
    if left and not dry_run:
        raise typer.Exit(CHECK_FAILED)


def _print(done: list[Copy], dry_run: bool) -> None:
    grid = Grid("where", "found", "now" if not dry_run else "", "known about it")
    for copy in done:
        until = f"until {copy.until:%Y-%m-%d %H:%M} at the latest" if copy.until else None
        said = "; ".join(filter(None, (copy.detail, until)))
        grid.add_row(copy.where, f"{copy.found:,} {copy.what}", "" if dry_run else _state(copy), said)
    out.print(grid)
    if dry_run:
        out.print("Nothing was removed.")
    elif all(copy.gone for copy in done):
        out.print("No copy of it can be read any more.")


def _state(copy: Copy) -> str:
    return "gone" if copy.gone else "left"
