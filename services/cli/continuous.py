"""`lakehouse verify --continuous` and `lakehouse heal`: what the verifier found, and what is done about it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from services.cli.output import CHECK_FAILED, Because, expected_errors, print_json
from services.operations.audit_trail import audited
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import open_catalog
from services.verifier.facts import explanations
from services.verifier.heal import Healing
from services.verifier.heal import heal as run_heal
from services.verify import record
from services.verify.explanation import Explanation
from services.verify.rounds import Finding, TableState

app = typer.Typer(rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
KEYS_SHOWN = 20


def show(names: Sequence[str], as_json: bool) -> None:
    """Print what the verifier knows; leaves with CHECK_FAILED if something is known to differ."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        states = record.named(record.read(open_catalog(settings)), names)
        explained = explanations(settings, [state.table for state in states if state.differences])
    differs = any(state.differences for state in states)
    if as_json:
        print_json({"equal": not differs, "tables": [as_data(s, explained.get(s.table, ())) for s in states]})
    else:
        _print(states, explained)
    if differs:
        raise typer.Exit(CHECK_FAILED)


def as_data(state: TableState, explanation: Sequence[Explanation] = ()) -> dict[str, Any]:
    """Return a table's state as plain data."""
    return {
        "table": state.table,
        "verified_through": state.verified and state.verified.log_position,
        "verified_at": state.verified and state.verified.at,
        "snapshot_id": str(state.verified.snapshot_id) if state.verified and state.verified.snapshot_id else None,
        "round_ended_at": state.ended_at,
        "differences": state.differences,
        "keys": {key: kind for finding in state.confirmed for key, kind in finding.keys.items()},
        "counts": state.counts and state.counts.model_dump(),
        "problems": [problem for finding in state.confirmed for problem in finding.problems],
        "explanation": [asdict(each) for each in explanation],
        "not_compared": state.not_compared,
    }


def _print(states: list[TableState], explained: Mapping[str, Sequence[Explanation]]) -> None:
    if not states:
        out.print("Nothing was compared yet: the verifier has just begun, or isn't running (`make status`).")
        return
    grid = Grid("table", "verified through", "at", "lake's snapshot", "round ended")
    grid.add_column("differences", justify="right")
    for state in states:
        through = state.verified
        grid.add_row(
            state.table, through.log_position if through else "-",
            f"{through.at:%Y-%m-%d %H:%M:%S}" if through else "-",
            str(through.snapshot_id or "-") if through else "-",
            f"{state.ended_at:%Y-%m-%d %H:%M:%S}" if state.ended_at else "-",
            Text(f"{state.differences:,}", "bold red") if state.differences else "0",
        )  # fmt: skip
    out.print(grid)
    for state in states:
        for line in [f"{state.table}: {each}" for each in explained.get(state.table, ())] + details(state):
            out.print(line)


def details(state: TableState) -> list[str]:
    """Return what the line of a table doesn't say."""
    lines = [f"{state.table}: not compared: {state.not_compared}"] if state.not_compared else []
    return lines + [f"{state.table}: {line}" for finding in state.confirmed for line in _finding(finding)]


def _finding(finding: Finding) -> list[str]:
    shown = [f"{key} {kind}" for key, kind in list(finding.keys.items())[:KEYS_SHOWN]]
    rest = finding.count - len(shown)
    if finding.counts:
        shown, rest = [f"{finding.counts}; `lakehouse verify` names those that differ"], 0
    lines = [*shown, f"and {rest:,} rows more"] if rest else shown
    return [*finding.problems, *lines]


HEAL_HELP = """Have the rows read from the source again in which the running verifier has found a difference.

Only the ranges of keys that the differences lie in, by an incremental snapshot beside the stream of changes. All tables
that differ, unless some are named. It doesn't remove rows that only the lake has, and names them. Examples:

    lakehouse verify --continuous

    lakehouse heal orders && lakehouse verify orders
"""


@app.command("heal", help=HEAL_HELP)
def heal(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`table` or `schema.table`.")] = None,
    because: Because = None,
    as_json: AsJson = False,
) -> None:
    """Heal what differs."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        with audited(open_catalog(settings), "heal", ", ".join(names or ()) or "all", because) as doing:
            done = run_heal(settings, names or ())
            doing.detail["tables"] = len(done)
    if as_json:
        print_json({"tables": [asdict(healing) for healing in done]})
        return
    for healing in done:
        for line in _told(healing):
            out.print(f"{healing.table}: {line}")
    if not done:
        out.print("Nothing is known to differ (`lakehouse verify --continuous`).")


def _told(healing: Healing) -> list[str]:
    lines = (
        [f"{len(healing.asked)} ranges of keys are read again; `lakehouse verify` proves it"] if healing.asked else []
    )
    lines += [f"{key} {kind}: reading rows again doesn't mend that" for key, kind in healing.left.items()]
    lines += healing.problems
    return [*lines, f"`lakehouse resync {healing.table}` makes the table anew"] if healing.left else lines
