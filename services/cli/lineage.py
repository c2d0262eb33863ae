"""`lakehouse lineage`: where data comes from, and where it goes."""

from enum import Enum
from typing import Annotated, Any

import typer

from services.cli.letters import moment
from services.cli.output import expected_errors, print_json
from services.lineage.ask import Asking
from services.lineage.draw import DOWNSTREAM, UPSTREAM, graphviz, indexed, label, merged, mermaid, tree, within
from services.lineage.settings import LineageEndpoint
from services.stack.console import Grid, out

app = typer.Typer(help="Where data comes from, and where it goes.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class Format(Enum):
    """How a graph is printed."""

    TREE = "tree"
    DOT = "dot"
    MERMAID = "mermaid"


SHOW_HELP = """Show what a table or a column is made of, and what is made of it; without one, of all mirrored tables.

TABLE is `orders`, `shop.orders` or `lake.shop.orders`; `orders.total` is a column. Any other dataset goes by its full
name, with its namespace and a colon before it if need be. Examples:

    lakehouse lineage show orders

    lakehouse lineage show orders.total --upstream

    lakehouse lineage show orders --at 2h --json

    lakehouse lineage show orders --format dot | dot -Tsvg > orders.svg

    lakehouse lineage show --format mermaid
"""


@app.command("show", help=SHOW_HELP)
def show(
    name: Annotated[str | None, typer.Argument(metavar="[TABLE[.COLUMN]]")] = None,
    upstream: Annotated[bool, typer.Option("--upstream", help="Only what it is made of.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="Only what is made of it.")] = False,
    at: Annotated[str | None, typer.Option(help="As it was then: 15m, 2h, 1d ago, or ISO 8601.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TREE,
    as_json: AsJson = False,
) -> None:
    """Show a graph."""
    directions = [d for d, asked in ((UPSTREAM, upstream), (DOWNSTREAM, downstream)) if asked] or [UPSTREAM, DOWNSTREAM]
    when = moment("--at", at, as_json)
    with expected_errors(as_json), Asking(LineageEndpoint.load()) as asking:
        chosen = asking.tables() if name is None else [asking.find(name)]
        parts = {found: within(indexed(asking.graph(found, when)), found.node, directions) for found in chosen}
    nodes = merged(parts.values())
    if as_json:
        node = None if name is None else chosen[0].node
        print_json({"node": node, "at": when, "graph": list(nodes.values())})
    elif form is Format.DOT:
        typer.echo(graphviz(nodes))
    elif form is Format.MERMAID:
        typer.echo(mermaid(nodes))
    else:
        for found, part in parts.items():
            out.print(tree(part, found.node, directions, found.label))


RUN_HELP = """Show a run: which job, when, how it went, and which versions of what it read and wrote.

Example:

    lakehouse lineage run 019a…
"""


@app.command("run", help=RUN_HELP)
def run(identifier: Annotated[str, typer.Argument(metavar="RUN")], as_json: AsJson = False) -> None:
    """Show a run."""
    with expected_errors(as_json), Asking(LineageEndpoint.load()) as asking:
        found = asking.run(identifier)
    if as_json:
        print_json(found)
        return
    _print_run(found)


SNAPSHOT_HELP = """Show what a snapshot of a table was made of: the run that wrote it, and which offsets it read.

SNAPSHOT is its number, as `lakehouse table show` prints it. Example:

    lakehouse lineage snapshot orders 4407154000972045753
"""


@app.command("snapshot", help=SNAPSHOT_HELP)
def snapshot(
    name: Annotated[str, typer.Argument(metavar="TABLE")],
    version: Annotated[str, typer.Argument(metavar="SNAPSHOT")],
    as_json: AsJson = False,
) -> None:
    """Show a version."""
    with expected_errors(as_json), Asking(LineageEndpoint.load()) as asking:
        at = asking.find(name)
        found = asking.version(at, version)
    if as_json:
        print_json(found)
        return
    out.print(f"{at.label}, snapshot {version}, committed {found['createdAt']}")
    _print_run(found["createdByRun"])


def _print_run(found: dict[str, Any]) -> None:
    job = found["jobVersion"]["name"]
    took = "" if found["durationMs"] is None else f", {found['durationMs'] / 1000:.1f} s"
    out.print(f"run {found['id']} of {job}: {found['state']}, began {found['startedAt']}{took}")
    why = (found["facets"].get("errorMessage") or {}).get("message")
    if why:
        out.print(f"because: {why}")
    grid = Grid("", "dataset", "version", "rows")
    for kind, uses in (("read", found["inputDatasetVersions"]), ("wrote", found["outputDatasetVersions"])):
        for use in uses:
            facets, named = use["facets"], use["datasetVersionId"]
            counted = facets.get("inputStatistics") or facets.get("outputStatistics") or {}
            shown = label({"type": "DATASET", "data": {**named, "facets": facets}})
            rows = counted.get("rowCount")
            grid.add_row(kind, shown, named["version"] or "-", "-" if rows is None else f"{rows:,}")
    out.print(grid)
