"""`lakehouse table show`: everything about one table."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pyiceberg.table import Table as LakeTable

from pipelines.lake.properties import EVENTS, KIND
from pipelines.specs.load import load_specs
from services.checker.record import CheckRun, newest
from services.cli.output import expected_errors, print_json
from services.cli.tables import AsJson, named, through
from services.facts.tables import TableFacts, facts, lags, verified
from services.lineage.ask import Asking
from services.lineage.draw import DOWNSTREAM, UPSTREAM, indexed, reached
from services.lineage.errors import CannotTell
from services.lineage.settings import LineageEndpoint
from services.operations.contracts.summary import Promise, broken_rows, promise, protections
from services.operations.layout.current import layout_of
from services.operations.maintain.alerts import Condition, alerts, condition
from services.operations.maintain.needs import need_of, partitions_of, source_of
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable
from services.stack.lake import lineage, open_catalog
from services.stack.published_datasets import DatasetState, dataset_state, datasets_of
from services.stack.words import age, size

HELP = """Show one table: columns, key, positions, files, health, contract, lineage, and its newest snapshots.

TABLE is `orders`, `shop.orders` or `lake.shop.orders`. Examples:

    lakehouse table show orders

    lakehouse table show lake.shop.orders --json
"""


def show_table(name: Annotated[str, typer.Argument(metavar="TABLE")], as_json: AsJson = False) -> None:
    """Show a table."""
    with expected_errors(as_json):
        settings = StackSettings.load()
        table, catalog = named(settings, name, as_json), open_catalog(settings)
        events = [table] if table.properties.get(KIND) == EVENTS else []
        found, history = facts(table, *lags(settings, events), verified(catalog)), _history(table)
        health, warned = _health(table)
        layout, asked = layout_of(table), _asked(table)
        types, protected = {f.name: str(f.field_type) for f in table.schema().fields}, protections(table)
        promised = promise(source_of(table), types, protected)
        name = ".".join(table.name()[-2:])
        checked = newest(catalog, [name]).get(name)
        flows = _flows(f"lake.{name}")
        of = datasets_of(catalog, *table.name()[-2:]) if source_of(table) else []
        published = [dataset_state(dataset, table, datetime.now(UTC)) for dataset in of]
    broken = broken_rows(table)
    warned += _late(promised, found)
    if as_json:
        print_json({
            **asdict(found), "freshness_asked": asked, "layout": layout.model_dump(),
            "health": health and asdict(health), "alerts": warned, "contract": promised and asdict(promised),
            "broken_rows": broken, "checked": checked and asdict(checked), "lineage": flows,
            "newest_snapshots": history, "protected": protected, "published": [asdict(each) for each in published],
        })  # fmt: skip
        return
    described = {
        "table": found.table,
        "source": found.source_table or f"topic {found.topic}",
        "key": ", ".join(found.key) or "none (append only)",
        "rows": f"{found.rows:,}",
        "files": f"{found.data_files} data, {found.delete_files} deletes, {size(found.bytes)}",
        "positions": ", ".join(f"{p}: {o:,}" for p, o in found.positions.items()) or "-",
        "layout": f"partitioned by {_terms(layout.partition)}; rewritten files sorted by {_terms(layout.sort)}",
        "lag": f"{found.lag:,} offsets, freshness {age(found.freshness_seconds)}, of {age(asked)} asked for",
        **({"held": found.held} if found.held else {}),
        "verified": f"through {through(found, datetime.now(UTC))}; {found.differences:,} rows known to differ",
        **({"health": _described(health)} if health else {}),
        **(_promised(promised) if promised else {"contract": "none; `lakehouse contract init` writes a first one"}),
        **({"checked": _checked(checked)} if checked else {}),
        **({"shown": "; ".join(map(_shown, published))} if published else {}),
        "made of": ", ".join(flows["upstream"]) or "nothing known" if flows else "not known: lineage doesn't answer",
        **({"used by": ", ".join(flows["downstream"])} if flows and flows["downstream"] else {}),
        **({"broken": ", ".join(f"{name} by {count:,} rows" for name, count in broken.items())} if broken else {}),
    }
    _print([*described.items(), *(("alert", text) for text in warned)], found, history, promised, protected)


def _print(
    described: list[tuple[str, str]], found: TableFacts, history: list[dict[str, Any]], promised: Promise | None,
    protected: Mapping[str, str],
) -> None:  # fmt: skip
    for label, value in described:
        out.print(f"{label:>10}  {value}")
    columns = Grid("column", "type", "", "class", "protected")
    said, classes = (promised.columns, promised.classes) if promised else ({}, {})
    for column in found.columns:
        what = "key" if column["key"] else column["doc"] or said.get(column["name"], "")
        columns.add_row(column["name"], column["type"], what, classes.get(column["name"], ""),
                        protected.get(column["name"], ""))  # fmt: skip
    out.print(columns)
    grid = Grid("snapshot", "committed", "operation", "batch", "offsets")
    for item in history:
        grid.add_row(item["snapshot_id"], f"{item['committed_at']:%Y-%m-%d %H:%M:%S}", item["operation"],
                     item["batch"] or "-", item["offsets"] or "-")  # fmt: skip
    out.print(grid)


def _promised(contract: Promise) -> dict[str, str]:
    kept = "; ".join(contract.broken) or "columns as promised"
    return {
        **({"about": contract.description} if contract.description else {}),
        "owner": f"{contract.owner or '-'}; steward {contract.steward or '-'}",
        "contract": f"{contract.version}, {contract.status}; fresh within {age(contract.freshness_seconds)}; {kept}",
    }


def _checked(run: CheckRun) -> str:
    not_asked = f", {run.not_asked:,} not asked" if run.not_asked else ""
    ago = age((datetime.now(UTC) - run.started_at).total_seconds())
    return f"{ago} ago: {run.verdict}{not_asked} (`lakehouse check --last`)"


def _shown(dataset: DatasetState) -> str:
    behind = f"{age(dataset.behind_seconds)} behind" if dataset.behind_seconds else "up to date"
    return f"to {dataset.role} as {dataset.table}, {behind}"


def _flows(name: str) -> dict[str, list[str]] | None:
    """Return what the table is made of, and what is made of it or reads it, nearest first; None: nobody answers."""
    try:
        with Asking(LineageEndpoint.load()) as asking:
            found = asking.find(name)
            nodes = indexed(asking.graph(found))
    except CannotTell:
        return {UPSTREAM: [], DOWNSTREAM: []}
    except Unreachable:
        return None
    return {direction: reached(nodes, found.node, direction) for direction in (UPSTREAM, DOWNSTREAM)}


def _late(contract: Promise | None, found: TableFacts) -> list[str]:
    promised = contract.freshness_seconds if contract else None
    if promised is None or found.freshness_seconds is None or found.freshness_seconds <= promised:
        return []
    return [f"{age(found.freshness_seconds)} old, of {age(promised)} that its contract promises"]


def _terms(terms: tuple[str, ...] | None) -> str:
    return ", ".join(terms or ()) or "nothing"


def _asked(table: LakeTable) -> float | None:
    """Return how fresh its spec wants a table, in seconds; None for a table that isn't a mirror."""
    source = source_of(table)
    return None if source is None else load_specs().freshness(*source)


def _health(table: LakeTable) -> tuple[Condition | None, list[str]]:
    """Return a table's condition, and what of it is an alert; None for a table that isn't a mirror."""
    specs, source = load_specs(), source_of(table)
    if source is None:
        return None, []
    partitions = partitions_of(table)
    found = condition(table, need_of(table, specs, partitions), partitions)
    return found, alerts(specs.alerts(*source), found, datetime.now(UTC))


def _described(health: Condition) -> str:
    compacted = "no compaction among its snapshots"
    if health.compacted is not None:
        compacted = f"compacted {age((datetime.now(UTC) - health.compacted).total_seconds())} ago"
    cost = f"a scan costs {health.scan_cost:.2f} times what it would rewritten"
    return f"{cost}; {health.snapshots:,} snapshots, {size(health.metadata_bytes)} of metadata; {compacted}"


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
