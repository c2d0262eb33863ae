"""`lakehouse`: the entry point and its commands `env`, `wait` and `verify`."""

import shlex
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from services.cli import (
    audit,
    capture,
    check,
    continuous,
    contract,
    dlq,
    docs,
    erase,
    lineage,
    maintain,
    resync,
    schema,
    show,
    tables,
)
from services.cli.advise import ADVISE_HELP, advise_table
from services.cli.dlq_actions import REPLAY_HELP, replay_letters
from services.cli.output import CHECK_FAILED, UNUSABLE, expected_errors, fail, print_json, progress
from services.lineage.settings import LineageAccess
from services.stack.console import Grid, err, out
from services.stack.endpoints import StackSettings
from services.stack.position import unheard, wait_until_visible
from services.stack.readers import ReaderSettings, Role, reader_endpoints
from services.verifier.facts import explanations
from services.verify.ledger_proof import TableHistory, histories
from services.verify.report import Difference, Report, TableReport
from services.verify.verification import EXAMPLES, MEMORY
from services.verify.verification import verify as run_verify

app = typer.Typer(
    name="lakehouse",
    help="Look at the lakehouse from outside: endpoints, equality with the source, tables, dead letters.\n\n"
    "Exit codes: 0 ok, 1 the check failed, 2 usage or environment.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(tables.app, name="table")
tables.app.command("show", help=show.HELP)(show.show_table)
tables.app.command("advise", help=ADVISE_HELP)(advise_table)
app.add_typer(capture.app, name="capture")
app.add_typer(dlq.app, name="dlq")
app.command("replay", help=REPLAY_HELP)(replay_letters)
app.add_typer(schema.app, name="schema")
app.add_typer(contract.app, name="contract")
app.add_typer(lineage.app, name="lineage")
app.add_typer(resync.app)
app.add_typer(check.app)
app.add_typer(docs.app)
app.add_typer(maintain.app)
app.add_typer(continuous.app)
app.add_typer(erase.app)
app.add_typer(audit.app)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

ENV_HELP = """Print every endpoint and credential needed to reach the stack from outside.

Prints secrets. Examples:

    eval "$(lakehouse env)" && echo "$catalog_uri"

    lakehouse env --role restricted --json

    lakehouse env --json | jq -r .source_dsn
"""


@app.command("env", help=ENV_HELP)
def env(
    role: Annotated[Role, typer.Option(help="Whose credentials.")] = Role.OPERATOR, as_json: AsJson = False
) -> None:
    """Endpoints and credentials."""
    with expected_errors(as_json):
        values = (
            endpoints(StackSettings.load(), LineageAccess.load())
            if role is Role.OPERATOR
            else reader_endpoints(ReaderSettings.load(), role)
        )
    if as_json:
        print_json(values)
        return
    for key, value in values.items():
        typer.echo(f"{key}={shlex.quote(value)}")


def endpoints(settings: StackSettings, lineage: LineageAccess) -> dict[str, str]:
    """Return what `lakehouse env` prints. Other programs rely on these names."""
    return {
        "source_dsn": settings.source_dsn.get_secret_value(),
        "kafka_bootstrap": settings.kafka_bootstrap,
        "schema_registry_url": settings.schema_registry_url,
        "connect_url": settings.connect_url,
        "catalog_uri": settings.catalog_uri,
        "warehouse": settings.warehouse,
        "s3_endpoint": settings.s3_endpoint,
        "s3_region": settings.s3_region,
        "s3_bucket": settings.s3_bucket,
        "s3_access_key": settings.operator_s3_access_key.get_secret_value(),
        "s3_secret_key": settings.operator_s3_secret_key.get_secret_value(),
        "lineage_url": lineage.lineage_url,
        "lineage_api_key": lineage.lineage_api_key.get_secret_value(),
    }


WAIT_HELP = """Return once everything committed in the source before the call is visible in the lake.

Examples:

    lakehouse wait && lakehouse table list

    lakehouse wait --tables orders,public.customers

    lakehouse wait --except-held --timeout 30 --json

A table that is held is told at once, with the reason. The others are waited for; then the exit code is 1, or 0 with
--except-held.
"""


@app.command("wait", help=WAIT_HELP)
def wait(
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait at most.")] = 120.0,
    tables: Annotated[
        str, typer.Option(metavar="TABLE,…", help="Only for these: `table` or `schema.table`, by commas.")
    ] = "",
    except_held: Annotated[bool, typer.Option("--except-held", help="Do without tables that are held.")] = False,
    as_json: AsJson = False,
) -> None:
    """Wait until the lake has caught up."""
    started = time.monotonic()
    names = [name for each in tables.split(",") if (name := each.strip())]
    if tables and not names:
        fail("--tables names no table", UNUSABLE, as_json)
    with expected_errors(as_json), progress(not as_json) as on_progress:
        position = wait_until_visible(
            StackSettings.load(), timeout, on_progress, except_held, names, unheard if as_json else _say_held
        )
    seconds = time.monotonic() - started
    if as_json:
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(position.ends.items()):
            topics.setdefault(topic, {})[str(partition)] = end
        print_json({"caught_up": True, "lsn": position.log.text, "seconds": round(seconds, 3), "end_offsets": topics,
                    "held": position.held})  # fmt: skip
    else:
        but = f", but for {', '.join(sorted(position.held))}" if position.held else ""
        what = ", ".join(names) if names else "everything"
        out.print(f"The lake holds {what} up to {position.log.text}{but} (waited {seconds:.1f} s).")


def _say_held(topic: str, why: str) -> None:
    err.print(f"held: {topic}: {why}")


VERIFY_HELP = """Compare source and lake row by row, value by value, at one agreed position.

Right while the workload runs, and for large tables in bounded memory. All captured tables unless some are named.
Exit code 1 if anything differs; what explains it (a dead letter, a hold, a re-read, or nothing) is told. Examples:

    lakehouse verify

    lakehouse verify orders public.customers --examples 50

    lakehouse verify --ledger

    lakehouse verify --continuous

    lakehouse verify --json | jq '.tables[] | select(.equal | not)'

With --ledger the tables' own histories are checked instead: every offset of a topic is in one commit, no gap and no
overlap, and each record was merged, superseded, dead-lettered, a tombstone or a truncate. With --continuous nothing is
compared: it shows what the running verifier has found, and through which position it has verified each table.
"""


@app.command("verify", help=VERIFY_HELP)
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="`table` or `schema.table`.")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the lake to come near.")] = 300.0,
    examples: Annotated[int, typer.Option(min=0, help="Differing keys to name, per table and kind.")] = EXAMPLES,
    memory: Annotated[str, typer.Option(help="Memory for the comparison; the rest goes to disk.")] = MEMORY,
    of_ledger: Annotated[bool, typer.Option("--ledger", help="Check the tables' histories instead of rows.")] = False,
    running: Annotated[bool, typer.Option("--continuous", help="Show what the running verifier knows.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove that the lake equals its source."""
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


def print_histories(found: list[TableHistory]) -> None:
    """Print the ledgers for people: a line a table, then what is wrong."""
    grid = Grid("table", "", title="What became of every offset")
    for name in ("commits", "offsets", "merged", "superseded", "dead letters", "tombstones", "truncates", "markers",
                 "lost"):  # fmt: skip
        grid.add_column(name, justify="right")
    for t in found:
        verdict = Text("not whole", "bold red") if t.problems else Text("whole" if t.complete else "whole*", "green")
        counts = (t.counts.merged, t.counts.superseded, t.counts.dead_lettered, t.counts.tombstones, t.counts.truncates)
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
