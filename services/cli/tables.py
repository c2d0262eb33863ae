"""`lakehouse table`: the mirrored tables, their files and how fresh they are."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as LakeTable
from pyiceberg.types import TimestamptzType
from rich.table import Table

from pipelines import spec
from services.checker.known import KnownRun, newest
from services.cli.output import UNUSABLE, age, expected_errors, fail, out, print_json, size
from services.contracts.shown import Promise, broken_rows, promise
from services.layout.present import layout_of
from services.maintain.alerts import Condition, alerts, condition
from services.maintain.tables import need_of, source_of
from services.verifier import record
from services.verifier.rounds import TableState
from services.verify.lake import ledger_of, lineage, open_catalog, tables
from services.verify.offsets import Offsets, behind
from services.verify.position import kafka
from services.verify.settings import StackSettings

app = typer.Typer(help="Tables of the lake.", no_args_is_help=True, rich_markup_mode="markdown")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class TableFacts:
    """A mirrored table. ``lag``: offsets of its topic not yet in the lake; ``freshness_seconds``: 0 without lag, else
    the age of the newest source commit that the table shows. ``held``: why the mirror can't bring it on.
    ``verified_through``: the log position through which the verifier has found it equal to its source, ``verified_at``
    the source's clock there; ``differences``: rows that it knows to differ.
    """

    table: str
    source_table: str | None
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
    """What the catalog's metadata tells of a table; reads no data."""
    properties, snapshot = table.properties, table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    number = {name: int(summary.get(f"total-{name}", 0)) for name in
              ("records", "position-deletes", "data-files", "delete-files", "files-size")}  # fmt: skip
    topic = properties.get("lakehouse.topic")
    lag = sum(count for (name, _), count in lags.items() if name == topic)
    key = json.loads(properties.get("lakehouse.key-columns", "[]"))
    source = properties.get("lakehouse.source-table")
    state = known.get(f"{properties.get('lakehouse.source-schema')}.{source}")
    verified = state.verified if state else None
    return TableFacts(
        table=".".join(("lake", *table.name()[-2:])),
        source_table=source and f"{properties['lakehouse.source-schema']}.{source}",
        key=key,
        rows=number["records"] - number["position-deletes"],
        data_files=number["data-files"],
        delete_files=number["delete-files"],
        bytes=number["files-size"],
        snapshots=len(table.snapshots()),
        snapshot_id=str(snapshot.snapshot_id) if snapshot else None,
        last_commit=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC) if snapshot else None,
        lag=lag,
        freshness_seconds=0.0 if lag == 0 else _age_of_newest(table),
        held=held.get(topic or ""),
        verified_through=verified.lsn if verified else None,
        verified_at=verified.at if verified else None,
        differences=state.differences if state else 0,
        positions={str(p): offset for p, offset in sorted(ledger_of(table).positions.items())},
        columns=[{"name": f.name, "type": str(f.field_type), "required": f.required, "key": f.name in key, "doc": f.doc}
                 for f in table.schema().fields],
    )  # fmt: skip


def _age_of_newest(table: LakeTable) -> float | None:
    snapshot = table.current_snapshot()
    if snapshot is None or "_committed_at" not in table.schema().column_names:
        return None
    column = table.schema().find_field("_committed_at")
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


def _lags(settings: StackSettings) -> tuple[Offsets, dict[str, str]]:
    """What the lake lacks of every partition, and the topics whose tables are held."""
    topics = kafka(settings)
    partitions = topics.partitions()
    return behind(topics.ends(partitions), topics.starts(partitions), topics.mirrored()), topics.held()


def _verified(catalog: Catalog) -> dict[str, TableState]:
    return {state.table: state for state in record.read(catalog)}


LIST_HELP = """List the mirrored tables: rows, files, size, lag, freshness, and what the verifier knows of them.

Examples:

    lakehouse table list

    lakehouse table list --json | jq '.tables[] | {table, rows, lag}'
"""


@app.command("list", help=LIST_HELP)
def list_tables(as_json: AsJson = False) -> None:
    """List tables."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        (lags, held), catalog = _lags(settings), open_catalog(settings)
        known = _verified(catalog)
        found = [facts(table, lags, held, known) for table in tables(catalog, settings)]
    if as_json:
        print_json({"tables": [asdict(table) for table in found], "held": held})
        return
    grid = Table("table", "source")
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
            _through(t, now),
            t.differences,
        )
        grid.add_row(t.table, t.source_table or "-", *(f"{c:,}" if isinstance(c, int) else c for c in cells))
    out.print(grid if found else "No tables yet: nothing was captured, or the mirror isn't running (`make status`).")
    for topic, reason in sorted(held.items()):
        out.print(f"held: {topic}: {reason}", markup=False, highlight=False, soft_wrap=True)


def _through(table: TableFacts, now: datetime) -> str:
    if table.verified_at is None:
        return "-"
    return f"{table.verified_through}, {age((now - table.verified_at).total_seconds())} ago"


SHOW_HELP = """Show one table: columns, key, position per partition, files, health, contract, and its newest snapshots.

TABLE is `orders`, `shop.orders` or `lake.shop.orders`. Examples:

    lakehouse table show orders

    lakehouse table show lake.shop.orders --json
"""


@app.command("show", help=SHOW_HELP)
def show_table(name: Annotated[str, typer.Argument(metavar="TABLE")], as_json: AsJson = False) -> None:
    """Show a table."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        table = named(settings, name, as_json)
        found, history = facts(table, *_lags(settings), _verified(open_catalog(settings))), _history(table)
        health, warned = _health(table)
        layout, asked = layout_of(table), _asked(table)
        promised = promise(source_of(table), {f.name: str(f.field_type) for f in table.schema().fields})
        checked = newest(open_catalog(settings), [".".join(table.name()[-2:])]).get(".".join(table.name()[-2:]))
    broken = broken_rows(table)
    if as_json:
        print_json({
            **asdict(found), "freshness_asked": asked, "layout": layout.model_dump(),
            "health": health and asdict(health), "alerts": warned, "contract": promised and asdict(promised),
            "broken_rows": broken, "checked": checked and asdict(checked), "newest_snapshots": history,
        })  # fmt: skip
        return
    described = {
        "table": found.table,
        "source": found.source_table or "-",
        "key": ", ".join(found.key) or "none (append only)",
        "rows": f"{found.rows:,}",
        "files": f"{found.data_files} data, {found.delete_files} deletes, {size(found.bytes)}",
        "positions": ", ".join(f"{p}: {o:,}" for p, o in found.positions.items()) or "-",
        "layout": f"partitioned by {_terms(layout.partition)}; rewritten files sorted by {_terms(layout.sort)}",
        "lag": f"{found.lag:,} offsets, freshness {age(found.freshness_seconds)}, of {age(asked)} asked for",
        **({"held": found.held} if found.held else {}),
        "verified": f"through {_through(found, datetime.now(UTC))}; {found.differences:,} rows known to differ",
        **({"health": _described(health)} if health else {}),
        **(_promised(promised) if promised else {"contract": "none; `lakehouse contract init` writes a first one"}),
        **({"checked": _checked(checked)} if checked else {}),
        **({"broken": ", ".join(f"{name} by {count:,} rows" for name, count in broken.items())} if broken else {}),
    }
    for label, value in [*described.items(), *(("alert", text) for text in warned)]:
        out.print(f"{label:>10}  {value}", markup=False, highlight=False, soft_wrap=True)
    columns = Table("column", "type", "", "class")
    said, classes = (promised.columns, promised.classes) if promised else ({}, {})
    for column in found.columns:
        what = "key" if column["key"] else column["doc"] or said.get(column["name"], "")
        columns.add_row(column["name"], column["type"], what, classes.get(column["name"], ""))
    out.print(columns)
    grid = Table("snapshot", "committed", "operation", "batch", "offsets")
    for item in history:
        grid.add_row(item["snapshot_id"], f"{item['committed_at']:%Y-%m-%d %H:%M:%S}", item["operation"],
                     item["batch"] or "-", item["offsets"] or "-")  # fmt: skip
    out.print(grid)


def _promised(contract: Promise) -> dict[str, str]:
    kept = "; ".join(contract.broken) or "kept"
    return {
        **({"about": contract.description} if contract.description else {}),
        "owner": f"{contract.owner or '-'}; steward {contract.steward or '-'}",
        "contract": f"{contract.version}, {contract.status}; fresh within {age(contract.freshness_seconds)}; {kept}",
    }


def _checked(run: KnownRun) -> str:
    kept = f"{run.asked:,} promises kept" if run.success else run.error or f"{run.failed:,} broken of {run.asked:,}"
    not_asked = f", {run.not_asked:,} couldn't be asked" if run.not_asked else ""
    return (
        f"{age((datetime.now(UTC) - run.started_at).total_seconds())} ago: {kept}{not_asked} (`lakehouse check --last`)"
    )


def _terms(terms: tuple[str, ...] | None) -> str:
    return ", ".join(terms or ()) or "nothing"


def _asked(table: LakeTable) -> float | None:
    """How fresh its spec wants a table, in seconds; None for a table that isn't a mirror."""
    source = source_of(table)
    return None if source is None else spec.load().freshness(*source)


def _health(table: LakeTable) -> tuple[Condition | None, list[str]]:
    """A table's condition, and what of it is an alert; None for a table that isn't a mirror."""
    specs, source = spec.load(), source_of(table)
    if source is None:
        return None, []
    found = condition(table, need_of(table, specs))
    return found, alerts(specs.alerts(*source), found, datetime.now(UTC))


def _described(health: Condition) -> str:
    compacted = "no compaction among its snapshots"
    if health.compacted is not None:
        compacted = f"compacted {age((datetime.now(UTC) - health.compacted).total_seconds())} ago"
    cost = f"a scan costs {health.scan_cost:.2f} times what it would rewritten"
    return f"{cost}; {health.snapshots:,} snapshots, {size(health.metadata_bytes)} of metadata; {compacted}"


def named(settings: StackSettings, name: str, as_json: bool) -> LakeTable:
    """The table that a person calls ``name``, with or without catalog and namespace; leaves if there is none."""
    everything = list(tables(open_catalog(settings), settings))
    chosen = [table for table in everything if _called(table, name)]
    if len(chosen) != 1:
        known = ", ".join(".".join(("lake", *t.name()[-2:])) for t in everything) or "none"
        fail(f"no table of the lake is called {name}. Tables: {known}.", UNUSABLE, as_json)
    return chosen[0]


def _called(table: LakeTable, name: str) -> bool:
    parts = ("lake", *table.name()[-2:])
    return name in {".".join(parts[start:]) for start in range(3)}


def _history(table: LakeTable, limit: int = 10) -> list[dict[str, Any]]:
    history = []
    for snapshot, _ in zip(lineage(table), range(limit), strict=False):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        history.append({
            "snapshot_id": str(snapshot.snapshot_id),
            "committed_at": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
            "operation": snapshot.summary.operation.value if snapshot.summary else "",
            "batch": summary.get("lakehouse.batch"),
            "offsets": summary.get("lakehouse.offsets"),
        })  # fmt: skip
    return history
