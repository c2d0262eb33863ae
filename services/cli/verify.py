"""`lakehouse verify`: the proof that the lake equals its source, and what it prints."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from pipelines.specs.load import load_specs
from services.cli import continuous
from services.cli.output import CHECK_FAILED, expected_errors, print_json, progress
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.verifier.facts import explanations
from services.verify.derived import prove
from services.verify.events import StreamReport, verify_streams
from services.verify.ledger_proof import TableHistory, histories
from services.verify.report import Difference, Report, TableReport
from services.verify.verification import EXAMPLES, MEMORY
from services.verify.verification import verify as run_verify

HELP = """Compare source and lake row by row, value by value, at one agreed position.

Right while the workload runs, and for large tables in bounded memory. All captured tables unless some are named.
Exit code 1 if anything differs; what explains it (a dead letter, a hold, a re-read, or nothing) is told. Examples:

    lakehouse verify

    lakehouse verify orders public.customers --examples 50

    lakehouse verify --ledger

    lakehouse verify --continuous

    lakehouse verify --events

    lakehouse verify --derived marts.daily_sales

    lakehouse verify --json | jq '.tables[] | select(.equal | not)'

With --ledger the tables' own histories are checked instead: every offset of a topic is in one commit, no gap and no
overlap, and each record was merged, superseded, dead-lettered, a tombstone or a truncate. With --continuous nothing is
compared: it shows what the running verifier has found, and through which position it has verified each table. With
--events the tables of event streams are compared with what Kafka holds of their topics, as of their newest snapshots.
With --derived the tables computed from tables are computed once more, of the snapshots that their newest commits name.
"""

app = typer.Typer(rich_markup_mode="markdown")


@app.command("verify", help=HELP)
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`table` or `schema.table`.")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the lake to come near.")] = 300.0,
    examples: Annotated[int, typer.Option(min=0, help="Differing keys to name, per table and kind.")] = EXAMPLES,
    memory: Annotated[str, typer.Option(help="Memory for the comparison; the rest goes to disk.")] = MEMORY,
    of_ledger: Annotated[bool, typer.Option("--ledger", help="Check the tables' histories instead of rows.")] = False,
    running: Annotated[bool, typer.Option("--continuous", help="Show what the running verifier knows.")] = False,
    of_events: Annotated[bool, typer.Option("--events", help="Compare event streams with their topics.")] = False,
    of_derived: Annotated[
        bool, typer.Option("--derived", help="Compute derived tables once more, and compare.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Prove that the lake equals its source."""
    if of_derived:
        _verify_derived(names or (), examples, as_json)
        return
    if of_events:
        _verify_events(names or (), examples, as_json)
        return
    if running:
        continuous.show(names or (), as_json)
        return
    if of_ledger:
        _verify_ledger(names or (), as_json)
        return
    with expected_errors(as_json), progress(not as_json) as on_progress:
        report = run_verify(
            settings := StackSettings.load(),
            names or (),
            on_progress,
            timeout=timeout,
            examples=examples,
            memory=memory,
        )
        differing = {table.table: table for table in report.tables if not table.equal}
        for name, found in explanations(settings, differing).items():
            differing[name].explanation = found
    if as_json:
        print_json(report.to_json())
    else:
        print_report(report)
    if not report.equal:
        raise typer.Exit(CHECK_FAILED)


def _verify_ledger(names: Sequence[str], as_json: bool) -> None:
    with expected_errors(as_json), progress(not as_json) as on_progress:
        found = histories(StackSettings.load(), names, on_progress)
    whole = not any(table.problems for table in found)
    if as_json:
        print_json({"whole": whole, "tables": [table.to_json() for table in found]})
    else:
        print_histories(found)
    if not whole:
        raise typer.Exit(CHECK_FAILED)


def _verify_events(names: Sequence[str], examples: int, as_json: bool) -> None:
    with expected_errors(as_json), progress(not as_json) as on_progress:
        found = verify_streams(StackSettings.load(), load_specs(), tuple(names), on_progress, examples)
    equal = all(report.equal for report in found)
    if as_json:
        print_json({"equal": equal, "tables": [{**asdict(report), "equal": report.equal} for report in found]})
    else:
        print_streams(found)
    if not equal:
        raise typer.Exit(CHECK_FAILED)


def _verify_derived(names: Sequence[str], examples: int, as_json: bool) -> None:
    with expected_errors(as_json), progress(not as_json) as on_progress:
        found = prove(load_specs(), tuple(names), on_progress, examples)
    equal = all(proof["equal"] for proof in found)
    if as_json:
        print_json({"equal": equal, "tables": found})
    else:
        print_derived(found)
    if not equal:
        raise typer.Exit(CHECK_FAILED)


def print_derived(found: list[dict[str, Any]]) -> None:
    """Print for people what was found of derived tables: a line each, then what differs."""
    grid = Grid("table", "", "snapshot", title="Derived tables, computed once more")
    for name in ("rows", "missing", "extra", "differ"):
        grid.add_column(name, justify="right")
    for t in found:
        verdict = Text("equal", "green") if t["equal"] else Text("not known" if t["problem"] else "differs", "bold red")
        numbers = (t["rows"], t["missing"], t["extra"], t["differing"])
        grid.add_row(t["table"], verdict, str(t["snapshot"] or "-"), *(f"{n:,}" for n in numbers))
    out.print(grid if found else "No spec has `kind: derived`.")
    for t in found:
        if t["problem"]:
            out.print(f"{t['table']}: {t['problem']}")
        for example in t["examples"]:
            out.print(f"{t['table']}: {_derived_difference(example)}")


def _derived_difference(found: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={_short(str(value))}" for name, value in found["key"].items())
    where = {"missing": "missing in the table", "extra": "only in the table", "differs": "differs"}[found["kind"]]
    said = {
        name: [None if value[side] is None else str(value[side]) for side in ("computed", "table")]
        for name, value in found.get("values", {}).items()
    }
    values = "".join(f"\n    {name}: computed {_short(c)} | table {_short(t)}" for name, (c, t) in said.items())
    return f"{key} {where}{values}"


def print_streams(found: list[StreamReport]) -> None:
    """Print for people what was found of event streams: a line each, then what differs."""
    grid = Grid("table", "", title="Event streams and their topics")
    for name in ("events", "rows", "dead letters", "sent twice", "missing", "extra", "double", "differ"):
        grid.add_column(name, justify="right")
    for t in found:
        verdict = Text("equal", "green") if t.equal else Text("differs", "bold red")
        numbers = (t.events, t.rows, t.dead_letters, t.duplicates, t.missing, t.extra, t.double, t.differing)
        grid.add_row(t.table, verdict, *(f"{n:,}" for n in numbers))
    out.print(grid if found else "No event stream has a table yet (`make up PROFILES=events`).")
    for t in found:
        for example in t.examples:
            out.print(f"{t.table}: {example}")
        if t.skipped:
            out.print(f"{t.table}: {t.skipped:,} offsets aren't in Kafka any more, and weren't compared")
        if t.not_compared:
            out.print(f"{t.table}: protected, and not compared: {', '.join(t.not_compared)}")


def print_histories(found: list[TableHistory]) -> None:
    """Print the ledgers for people: a line a table, then what is wrong."""
    grid = Grid("table", "", title="What became of every offset")
    for name in ("commits", "offsets", "merged", "superseded", "dead letters", "tombstones", "truncates", "sent twice",
                 "markers", "lost"):  # fmt: skip
        grid.add_column(name, justify="right")
    for t in found:
        verdict = Text("not whole", "bold red") if t.problems else Text("whole" if t.complete else "whole*", "green")
        counts = (t.counts.merged, t.counts.superseded, t.counts.dead_lettered, t.counts.tombstones, t.counts.truncates,
                  t.counts.duplicates)  # fmt: skip
        grid.add_row(t.table, verdict, *(f"{n:,}" for n in (t.commits, t.offsets, *counts, t.markers, t.lost)))
    out.print(grid)
    if not all(t.complete for t in found):
        out.print("* as far as its snapshots are kept")
    for t in found:
        for problem in t.problems:
            out.print(f"{t.table}: {problem}")
        if t.lost:
            told = "offsets were lost before they were read, and a resync made up for them"
            out.print(f"{t.table}: {t.lost:,} {told}")
        if t.uncounted:
            out.print(f"{t.table}: {t.uncounted} commits of an earlier release have no counts")


def print_report(report: Report) -> None:
    """Print the report for people: a line a table, then what differs."""
    grid = Grid("table", "", "snapshot", title=f"Source and lake at log position {report.lsn}")
    for name in ("source rows", "lake rows", "differ", "missing", "extra", "double", "tail", "s"):
        grid.add_column(name, justify="right")
    for table in report.tables:
        numbers = (table.rows_source, table.rows_lake, table.differing, table.missing, table.extra, table.duplicates,
                   table.tail_events)  # fmt: skip
        grid.add_row(table.table, Text("equal", "green") if table.equal else Text("differs", "bold red"),
                     str(table.snapshot_id or "-"), *(f"{n:,}" for n in numbers), f"{table.seconds:.1f}")  # fmt: skip
    out.print(grid)
    for table in report.tables:
        for line in details(table):
            out.print(line)
    for name in report.not_captured:
        out.print(f"not captured: {name} (see `make status`)")
    for name in report.only_in_lake:
        out.print(f"only in the lake: {name} (its source table is gone or renamed)")
    rows = sum(table.rows_source for table in report.tables)
    verdict = ("The lake equals its source", "bold green") if report.equal else (
        "The lake differs from its source", "bold red")  # fmt: skip
    out.print(Text.assemble(verdict, f": {len(report.tables)} tables, {rows:,} rows, {report.seconds:.1f} s."))


def details(table: TableReport) -> list[str]:
    """Return what the line of a table doesn't say."""
    lines = [f"{table.table}: {problem}" for problem in (*table.explanation, *table.problems)]
    lines += [f"{table.table}: {_difference(example)}" for example in table.examples]
    lines += [f"{table.table}: not compared: {name} ({reason})" for name, reason in table.not_compared.items()]
    if table.undecodable:
        lines.append(
            f"{table.table}: {table.undecodable} records of the tail can't be decoded; see `lakehouse dlq list`"
        )
    return lines


def _difference(found: Difference) -> str:
    key = ", ".join(f"{name}={_short(value)}" for name, value in found.key.items())
    times = f" ({found.count} times)" if found.count > 1 else ""
    values = "".join(f"\n    {n}: source {_short(s)} | lake {_short(k)}" for n, (s, k) in found.values.items())
    where = {"missing": "missing in the lake", "extra": "only in the lake", "duplicate": "more than once in the lake",
             "differs": "differs"}[found.kind]  # fmt: skip
    return f"{key} {where}{times}{values}"


def _short(value: str | None, limit: int = 160) -> str:
    if value is None:
        return "null"
    return repr(value) if len(value) <= limit else f"{value[:limit]!r}… ({len(value):,} characters)"
