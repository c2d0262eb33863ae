"""`lakehouse table`: the tables of the lake, their files and how fresh they are."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as LakeTable
from pyiceberg.types import TimestamptzType

from pipelines.lake.properties import DERIVED, EVENTS, KEY_COLUMNS, KIND, SOURCE_SCHEMA, SOURCE_TABLE, TOPIC
from services.cli.output import UNUSABLE, NeededBecause, age, expected_errors, fail, need_reason, print_json, size
from services.operations.audit_trail import audited
from services.operations.dead_letters.letters import Letters
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.lake import beside, called, ledger_of, open_catalog, tables
from services.stack.offsets import Offsets, behind, kafka
from services.verify import record
from services.verify.rounds import TableState

app = typer.Typer(help="Tables of the lake.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


# When a row's change was committed in its source, and when Kafka got an event.
MOMENTS = ("_committed_at", "_ingested_at")


@dataclass(frozen=True)
class TableFacts:
    """What is shown of a table.

    ``kind``: mirror; events, of an event stream, which has a topic and no source table; or derived, of what a query
    makes of others, which has neither. ``lag``: offsets of its
    topic not yet in the lake; ``freshness_seconds``: 0 without lag, else the age of the newest source commit, or event,
    that the table shows. ``held``: why it can't go on. ``verified_through``: the log position through which the
    verifier has found it equal to its source, ``verified_at`` the source's clock there; ``differences``: rows that it
    knows to differ.
    """

    table: str
    kind: str
    source_table: str | None
    topic: str | None
    key: list[str]
    rows: int
    data_files: int
    delete_files: int
    bytes: int
    snapshots: int
    snapshot_id: str | None
    last_commit: datetime | None
    lag: int
    freshness_seconds: float | None
    held: str | None = None
    verified_through: str | None = None
    verified_at: datetime | None = None
    differences: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    columns: list[dict[str, Any]] = field(default_factory=list)


def facts(table: LakeTable, lags: Offsets, held: Mapping[str, str], known: Mapping[str, TableState]) -> TableFacts:
    """Return what the catalog's metadata tells of a table; reads no data."""
    properties, snapshot = table.properties, table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    number = {name: int(summary.get(f"total-{name}", 0)) for name in
              ("records", "position-deletes", "data-files", "delete-files", "files-size")}  # fmt: skip
    topic = properties.get(TOPIC)
    lag = sum(count for (name, _), count in lags.items() if name == topic)
    key = json.loads(properties.get(KEY_COLUMNS, "[]"))
    source = properties.get(SOURCE_TABLE)
    state = known.get(f"{properties.get(SOURCE_SCHEMA)}.{source}")
    seen = state.verified if state else None
    return TableFacts(
        table=".".join(("lake", *table.name()[-2:])),
        kind=properties.get(KIND, "mirror"),
        source_table=source and f"{properties[SOURCE_SCHEMA]}.{source}",
        topic=topic,
        key=key,
        rows=number["records"] - number["position-deletes"],
        data_files=number["data-files"],
        delete_files=number["delete-files"],
        bytes=number["files-size"],
        snapshots=len(table.snapshots()),
        snapshot_id=str(snapshot.snapshot_id) if snapshot else None,
        last_commit=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC) if snapshot else None,
        lag=lag,
        freshness_seconds=None if properties.get(KIND) == DERIVED else 0.0 if lag == 0 else _age_of_newest(table),
        held=held.get(topic or ""),
        verified_through=seen.log_position if seen else None,
        verified_at=seen.at if seen else None,
        differences=state.differences if state else 0,
        positions={str(p): offset for p, offset in sorted(ledger_of(table).positions.items())},
        columns=[{"name": f.name, "type": str(f.field_type), "required": f.required, "key": f.name in key, "doc": f.doc}
                 for f in table.schema().fields],
    )  # fmt: skip


def _age_of_newest(table: LakeTable) -> float | None:
    snapshot, named = table.current_snapshot(), [n for n in MOMENTS if n in table.schema().column_names]
    if snapshot is None or not named:
        return None
    column = table.schema().find_field(named[0])
    bounds = [
        entry.data_file.upper_bounds[column.field_id]
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.data_file.content == DataFileContent.DATA and column.field_id in (entry.data_file.upper_bounds or {})
    ]
    if not bounds:
        return None
    newest_us = max(int(from_bytes(TimestamptzType(), bound)) for bound in bounds)
    return max(0.0, datetime.now(UTC).timestamp() - newest_us / 1e6)


def lags(settings: StackSettings, streams: Iterable[LakeTable] = ()) -> tuple[Offsets, dict[str, str]]:
    """Return what the lake lacks of every partition, and the topics whose tables are held.

    ``streams``: the tables of event streams, whose topics count as well.
    """
    topics, names = kafka(settings), [table.properties[TOPIC] for table in streams]
    partitions = [*topics.partitions(), *(topics.partitions_of(names) if names else ())]
    reached, held = topics.told()
    if names:
        more, others = topics.streams_told(names)
        reached, held = reached | more, held | others
    return behind(topics.ends(partitions), topics.starts(partitions), reached), held


def verified(catalog: Catalog) -> dict[str, TableState]:
    """Return what the verifier knows, by the source's table."""
    return {state.table: state for state in record.read(catalog)}


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
