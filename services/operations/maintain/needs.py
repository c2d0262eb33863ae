"""What the mirrored tables need now, by the catalog's metadata: what the mirror itself would see."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType

from pipelines.lake.properties import (
    DELETE_GRANULARITY,
    DERIVED,
    EVENTS,
    KEY_COLUMNS,
    KIND,
    SOURCE_SCHEMA,
    SOURCE_TABLE,
)
from pipelines.maintenance.health import MIB, Health, health
from pipelines.maintenance.plan import DueTask, compaction, counted_columns, deletes, expiry, manifests, statistics
from pipelines.specs.load import Specs
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify
from services.stack.lake import beside, called, tables


@dataclass(frozen=True)
class Need:
    """What a table (``namespace.table``) needs.

    Its health, what a scan is estimated to cost as a multiple of the cost if it were rewritten now, and what is due.
    """

    table: str
    health: Health
    scan_cost: float
    due: list[DueTask]


def needs(catalog: Catalog, settings: StackSettings, specs: Specs, names: Iterable[str] = ()) -> list[Need]:
    """Return what the named tables need, or all. Raises CannotVerify for a name that none has.

    A name is ``table`` or ``namespace.table``.
    """
    every = (*tables(catalog, settings), *beside(catalog, settings))
    found = {".".join(table.name()[-2:]): table for table in every}
    wanted = set(names)
    unknown = wanted - {each for name in found for each in called(name)}
    if unknown:
        raise CannotVerify(f"no table of the lake is called {', '.join(sorted(unknown))} (`lakehouse table list`).")
    chosen = {name: table for name, table in found.items() if not wanted or wanted & called(name)}
    return [need_of(table, specs) for table in chosen.values() if source_of(table) is not None]


def source_of(table: Table) -> tuple[str, str] | None:
    """What a table's spec and contract are found by: schema and name of the table that it mirrors.

    Of an event stream or a derived table its own namespace and name; None: it is none of these.
    """
    properties = table.properties
    if properties.get(KIND) in (EVENTS, DERIVED):
        return table.name()[-2], table.name()[-1]
    if SOURCE_TABLE not in properties:
        return None
    return properties[SOURCE_SCHEMA], properties[SOURCE_TABLE]


def partitions_of(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table's metadata table ``partitions``. Reads all manifests of its current snapshot."""
    rows: list[dict[str, Any]] = table.inspect.partitions().to_pylist() if table.current_snapshot() else []
    return rows


def need_of(table: Table, specs: Specs, partitions: list[dict[str, Any]] | None = None) -> Need:
    """Return what one mirrored table needs. ``partitions``: of :func:`partitions_of`, where they are known."""
    source, snapshot = source_of(table), table.current_snapshot()
    assert source is not None
    policy = specs.upkeep(*source)
    tagged = {ref.snapshot_id for ref in table.refs().values() if ref.snapshot_ref_type == SnapshotRefType.TAG}
    times = [s.timestamp_ms for s in table.snapshots() if s.snapshot_id not in tagged]
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    parts: list[dict[str, Any]] = []
    if table.spec().fields:
        parts = partitions_of(table) if partitions is None else partitions
    listed = len(snapshot.manifests(table.io)) if snapshot else 0
    state = health(summary, len(table.snapshots()), listed, parts)
    keys = json.loads(table.properties.get(KEY_COLUMNS, "[]"))
    counted = counted_columns(keys, specs.layout(*source), table.schema().column_names)
    now = round(time.time() * 1000)
    due = [
        deletes(state, table.properties.get(DELETE_GRANULARITY)),
        compaction(policy, state, 0), manifests(policy, state, 0), expiry(policy, times, now),
        statistics(policy, state, _counted_at(table), now) if counted else None,
    ] if snapshot else []  # fmt: skip
    cost = state.scan_cost(policy.target_file_mib * MIB)
    return Need(".".join(table.name()[-2:]), state, cost, [task for task in due if task is not None])


def _counted_at(table: Table) -> int | None:
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.snapshots()}
    of = (file.snapshot_id for file in table.metadata.statistics)
    return max((times[snapshot] for snapshot in of if snapshot in times), default=None)
