"""`lakehouse schema`: how the lake's tables followed their source's schema."""

import json
from typing import Annotated, Any

import typer

from pipelines.lake.properties import SCHEMA_HISTORY
from pipelines.sources.kinds import source_events
from services.cli.output import expected_errors, print_json
from services.cli.tables import named
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings

app = typer.Typer(help="Schemas of the lake's tables.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

HISTORY_HELP = """Show each change of a table's schema: when and where in the source's log, and what was done.

TABLE is `orders`, `shop.orders` or `lake.shop.orders`. Examples:

    lakehouse schema history orders

    lakehouse schema history orders --json | jq '.changes[-1]'
"""


@app.callback()
def group() -> None:
    """Keeps `history` a command of its own."""


@app.command("history", help=HISTORY_HELP)
def history(name: Annotated[str, typer.Argument(metavar="TABLE")], as_json: AsJson = False) -> None:
    """Show what was changed."""
    with expected_errors(as_json):
        table = named(StackSettings.load(), name, as_json)
    found = entries(table.properties)
    if as_json:
        print_json({"table": ".".join(("lake", *table.name()[-2:])), "changes": found})
        return
    _print(found)


def _print(found: list[dict[str, Any]]) -> None:
    grid = Grid("changed in the source", "log position", "what was done")
    for entry in found:
        grid.add_row(entry["at"] or "-", entry["lsn"] or "-", "\n".join(entry["done"]))
    out.print(grid if found else "Its schema hasn't changed since the table was created.")


def entries(properties: dict[str, str]) -> list[dict[str, Any]]:
    """Return the changes that a table's properties tell of, oldest first; ``lsn`` as the source prints it."""
    return [
        {"at": entry.get("at"), "lsn": _text(entry.get("lsn")), "done": entry["changes"]}
        for entry in json.loads(properties.get(SCHEMA_HISTORY, "[]"))
    ]


def _text(position: int | None) -> str | None:
    return None if position is None else source_events().log_text(position)
