"""`lakehouse table`: the tables of the lake, their files and how fresh they are."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from pyiceberg.table import Table as LakeTable

from pipelines.lake.properties import EVENTS, KIND
from services.cli.output import UNUSABLE, NeededBecause, expected_errors, fail, need_reason, print_json
from services.facts.tables import TableFacts, facts, lags, verified
from services.operations.audit_trail import audited
from services.operations.dead_letters.letters import Letters
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import beside, called, open_catalog, tables
from services.stack.offsets import kafka
from services.stack.words import age, size

app = typer.Typer(help="Tables of the lake.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


LIST_HELP = """List the tables: rows, files, size, lag, freshness, and what the verifier knows of them.

Examples:

    lakehouse table list

    lakehouse table list --json | jq '.tables[] | {table, rows, lag}'
"""


@app.command("list", help=LIST_HELP)
def list_tables(as_json: AsJson = False) -> None:
    """List tables."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        catalog = open_catalog(settings)
        others = list(beside(catalog, settings))
        events = [table for table in others if table.properties[KIND] == EVENTS]
        lacking, held = lags(settings, events)
        known = verified(catalog)
        found = [facts(table, lacking, held, known) for table in (*tables(catalog, settings), *others)]
    if as_json:
        print_json({"tables": [asdict(table) for table in found], "held": held})
    else:
        _print(found, held)


def _print(found: list[TableFacts], held: Mapping[str, str]) -> None:
    grid = Grid("table", "source")
    for name in ("rows", "data files", "deletes", "size", "snapshots", "last commit", "lag", "fresh",
                 "verified through", "differences"):  # fmt: skip
        grid.add_column(name, justify="right")
    now = datetime.now(UTC)
    for t in found:
        since = None if t.last_commit is None else (now - t.last_commit).total_seconds()
        committed = "-" if since is None else f"{age(since)} ago"
        cells = (
            t.rows,
            t.data_files,
            t.delete_files,
            size(t.bytes),
            t.snapshots,
            committed,
            t.lag,
            age(t.freshness_seconds),
            through(t, now),
            t.differences,
        )
        grid.add_row(
            t.table, t.source_table or t.topic or t.kind, *(f"{c:,}" if isinstance(c, int) else c for c in cells)
        )
    out.print(grid if found else "No tables yet: nothing was captured, or the mirror isn't running (`make status`).")
    for topic, reason in sorted(held.items()):
        out.print(f"held: {topic}: {reason}")


def through(table: TableFacts, now: datetime) -> str:
    """Return how far the verifier has found a table equal, for people."""
    if table.verified_at is None:
        return "-"
    return f"{table.verified_through}, {age((now - table.verified_at).total_seconds())} ago"


GIVE_UP_HELP = """Let go of a held table: what it lacks now is given up, and `lakehouse wait` doesn't wait for it.

TOPIC is as `lakehouse table list` names it. The table stays in the lake as it is. It is tried again once new records
come, and `lakehouse resync TABLE` makes it whole. A table that is dropped in the source is let go of by itself.

Example:

    lakehouse table give-up shop.public.orders --because "nobody reads it any more"
"""


@app.command("give-up", help=GIVE_UP_HELP)
def give_up(
    topic: Annotated[str, typer.Argument(help="The table's topic.")],
    because: NeededBecause,
    as_json: AsJson = False,
) -> None:
    """Let go of a held table."""
    need_reason(because, as_json)
    with expected_errors(as_json):
        settings = StackSettings.load()
        topics = kafka(settings)
        held = topics.held()
        if topic not in held:
            fail(f"{topic} isn't held. Held: {', '.join(sorted(held)) or 'none'}.", UNUSABLE, as_json)
        given_up = topics.ends_of(topic)
        with audited(catalog := open_catalog(settings), "give-up", topic, because) as doing:
            doing.detail["held"] = held[topic]
            Letters(catalog).give_up(topic, given_up, because)
    if as_json:
        print_json({"topic": topic, "held": held[topic], "given_up_below": {str(p): e for p, e in given_up.items()}})
    else:
        out.print(f"What {topic} lacks is given up; nobody waits for it once the mirror has seen that.")


def named(settings: StackSettings, name: str, as_json: bool) -> LakeTable:
    """Return the table that a person calls ``name``, with or without catalog and namespace; leaves if there is none."""
    catalog = open_catalog(settings)
    everything = [*tables(catalog, settings), *beside(catalog, settings)]
    chosen = [table for table in everything if name in called(".".join(table.name()[-2:]))]
    if len(chosen) != 1:
        known = ", ".join(".".join(("lake", *t.name()[-2:])) for t in everything) or "none"
        fail(f"no table of the lake is called {name}. Tables: {known}.", UNUSABLE, as_json)
    return chosen[0]
