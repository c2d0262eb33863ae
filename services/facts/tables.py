"""Facts about tables: what the catalog's metadata and Kafka tell of them. Reads no data."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as LakeTable
from pyiceberg.types import TimestamptzType

from pipelines.lake.properties import DERIVED, KEY_COLUMNS, KIND, SOURCE_SCHEMA, SOURCE_TABLE, TOPIC
from services.stack.endpoints import StackSettings
from services.stack.lake import ledger_of
from services.stack.offsets import Offsets, behind, kafka
from services.verify import record
from services.verify.rounds import TableState

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
