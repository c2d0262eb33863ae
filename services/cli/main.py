"""`lakehouse`: the entry point and its commands `env` and `wait`."""

import shlex
import time
from typing import Annotated

import typer

from pipelines.specs.load import load_specs
from services.cli import (
    audit,
    backfill,
    backup,
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
    verify,
)
from services.cli.advise import ADVISE_HELP, advise_table
from services.cli.dlq_actions import REPLAY_HELP, replay_letters
from services.cli.output import UNUSABLE, expected_errors, fail, print_json, progress
from services.lineage.settings import LineageAccess
from services.stack.console import err, out
from services.stack.endpoints import StackSettings
from services.stack.lake import called
from services.stack.offsets import Offsets
from services.stack.position import unheard, wait_for_streams, wait_until_visible
from services.stack.readers import ReaderSettings, Role, reader_endpoints

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
app.add_typer(backfill.app)
app.add_typer(backup.app)
app.add_typer(continuous.app)
app.add_typer(erase.app)
app.add_typer(audit.app)
app.add_typer(verify.app)

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

    lakehouse wait --events --tables events.clicks

A table that is held is told at once, with the reason. The others are waited for; then the exit code is 1, or 0 with
--except-held. With --events it waits for event streams instead: for everything that their topics hold at the call.
"""


@app.command("wait", help=WAIT_HELP)
def wait(
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait at most.")] = 120.0,
    tables: Annotated[
        str, typer.Option(metavar="TABLE,…", help="Only for these: `table` or `schema.table`, by commas.")
    ] = "",
    except_held: Annotated[bool, typer.Option("--except-held", help="Do without tables that are held.")] = False,
    of_events: Annotated[bool, typer.Option("--events", help="Wait for event streams instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Wait until the lake has caught up."""
    started = time.monotonic()
    names = [name for each in tables.split(",") if (name := each.strip())]
    if tables and not names:
        fail("--tables names no table", UNUSABLE, as_json)
    if of_events:
        _wait_for_streams(names, timeout, started, as_json)
        return
    with expected_errors(as_json), progress(not as_json) as on_progress:
        position = wait_until_visible(
            StackSettings.load(), timeout, on_progress, except_held, names, unheard if as_json else _say_held
        )
    seconds = time.monotonic() - started
    if as_json:
        print_json({"caught_up": True, "lsn": position.log.text, "seconds": round(seconds, 3),
                    "end_offsets": by_topic(position.ends), "held": position.held})  # fmt: skip
    else:
        but = f", but for {', '.join(sorted(position.held))}" if position.held else ""
        what = ", ".join(names) if names else "everything"
        out.print(f"The lake holds {what} up to {position.log.text}{but} (waited {seconds:.1f} s).")


def _wait_for_streams(names: list[str], timeout: float, started: float, as_json: bool) -> None:
    streams = load_specs().streams
    chosen = [spec for table, spec in streams.items() if not names or called(table) & set(names)]
    unknown = [name for name in names if not any(name in called(table) for table in streams)]
    if unknown:
        known = ", ".join(sorted(streams)) or "none"
        fail(f"{', '.join(unknown)} is no event stream (known: {known})", UNUSABLE, as_json)
    with expected_errors(as_json), progress(not as_json) as on_progress:
        ends = by_topic(wait_for_streams(StackSettings.load(), [spec.topic for spec in chosen], timeout, on_progress))
    seconds = time.monotonic() - started
    missing = sorted({spec.topic for spec in chosen} - ends.keys())
    if as_json:
        print_json({"caught_up": True, "seconds": round(seconds, 3), "end_offsets": ends, "no_topic": missing})
        return
    named = ", ".join(spec.table for spec in chosen if spec.topic in ends)
    if named:
        out.print(f"The lake holds everything that the topics of {named} held (waited {seconds:.1f} s).")
    if missing:
        out.print(f"Nobody has made {', '.join(missing)} yet: no event was sent there.", markup=False)


def by_topic(ends: Offsets) -> dict[str, dict[str, int]]:
    """Return topic to partition to offset."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), end in sorted(ends.items()):
        topics.setdefault(topic, {})[str(partition)] = end
    return topics


def _say_held(topic: str, why: str) -> None:
    err.print(f"held: {topic}: {why}")
