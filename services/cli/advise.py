"""`lakehouse table advise`: a layout for a table."""

from dataclasses import asdict
from typing import Annotated

import typer

from pipelines.lake.properties import SOURCE_SCHEMA, SOURCE_TABLE
from services.cli.output import expected_errors, print_json
from services.cli.tables import AsJson, named
from services.operations.layout.advice import Advice, advise
from services.operations.layout.current import layout_of
from services.operations.layout.observation import Observation, observe
from services.operations.layout.words import as_spec, seen
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings

ADVISE_HELP = """Propose how a table should be partitioned and sorted, with what that is estimated to gain.

It is told from the table's own history (how many of its files a batch touches, and where the changed keys are), and for
each `--where`, a column that readers filter by, from what such a filter must read now. Nothing is changed: what you
agree with goes into the table's file in `pipelines/specs`. Examples:

    lakehouse table advise orders

    lakehouse table advise orders --where created_at --where customer_id --json
"""


def advise_table(
    name: Annotated[str, typer.Argument(metavar="TABLE")],
    where: Annotated[list[str] | None, typer.Option(help="A column that readers filter by. Repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Advise on a table's layout."""
    with expected_errors(as_json):
        table = named(StackSettings.load(), name, as_json)
        observed, layout = observe(table, where or ()), layout_of(table)
        found = advise(observed)
    if as_json:
        print_json({"table": ".".join(("lake", *table.name()[-2:])), "layout": layout.model_dump(),
                    "observed": asdict(observed), "advice": [asdict(advice) for advice in found]})  # fmt: skip
        return
    source = f"{table.properties[SOURCE_SCHEMA]}.{table.properties[SOURCE_TABLE]}"
    _print(observed, found, table.name()[-1], source)


def _print(observed: Observation, found: list[Advice], name: str, source: str) -> None:
    out.print(seen(observed))
    if not found:
        out.print("Nothing to gain: the table may stay as it is.")
        return
    grid = Grid("do", "because", "now", "then (estimated)")
    for advice in found:
        grid.add_row(f"{advice.part}: {advice.term}", advice.why, f"{advice.now:.0%}", f"{advice.then:.1%}")
    out.print(grid)
    out.print(
        f"In pipelines/specs/{name}.yaml, read when the mirror starts (`make up`):\n",
        f"  table: {source}\n  layout:",
        *(f"    {line}" for line in as_spec(found)),
        sep="\n",
    )
