"""`lakehouse audit`: who did what to the lake, and why."""

from dataclasses import asdict
from typing import Annotated

import typer

from services.cli.letters import Since, moment
from services.cli.output import expected_errors, print_json
from services.operations.audit_trail import Entry, entries
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog

HELP = """List what people did to the lake: replays, discards, resyncs, heals, maintenance; newest first.

Examples:

    lakehouse audit --since 1d

    lakehouse audit --json | jq '.actions[] | select(.action == "discard")'
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("audit", help=HELP)
def audit(
    since: Since = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List actions."""
    begun = moment("--since", since, as_json)
    with expected_errors(as_json):
        found = entries(open_catalog(StackSettings.load()), begun)
    if as_json:
        print_json({"actions": [asdict(entry) for entry in found]})
        return
    _print(found)


def _print(found: list[Entry]) -> None:
    grid = Grid("when", "who", "action", "of what", "why", "outcome")
    for entry in found:
        said = ", ".join(f"{name}: {value}" for name, value in entry.detail.items())
        outcome = f"{entry.outcome or 'not ended'}{f' ({said})' if said else ''}"
        grid.add_row(f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.who, entry.action, entry.target, entry.because or "-",
                     outcome)  # fmt: skip
    out.print(grid if found else "Nobody has done anything yet.")
