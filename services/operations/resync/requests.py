"""The lake's table of resyncs, which the mirror follows (see :mod:`pipelines.ledger.resyncs`)."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import In
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType, TimestamptzType

from pipelines.lake.names import NAMESPACE, RESYNCS
from pipelines.ledger.entries import Ledger
from pipelines.ledger.resyncs import ANEW, START
from services.stack.lake import own_table

_SCHEMA = Schema(
    NestedField(1, "id", StringType(), required=True),
    NestedField(2, "topic", StringType(), required=True),
    NestedField(3, "step", StringType(), required=True),
    NestedField(4, "positions", StringType(), required=True),
    NestedField(5, "at", TimestamptzType(), required=True),
)
_ARROW = pa.schema([
    *(pa.field(name, pa.string(), nullable=False) for name in ("id", "topic", "step", "positions")),
    pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
])  # fmt: skip


def write(catalog: Catalog, step: str, positions: Mapping[str, tuple[str, Mapping[int, int]]]) -> None:
    """Write down one step of resyncs, in one commit: topic to the resync's id and the topic's offsets by partition."""
    at = datetime.now(UTC)
    rows = [
        {"id": identifier, "topic": topic, "step": step, "at": at,
         "positions": json.dumps({str(partition): offset for partition, offset in sorted(reached.items())})}
        for topic, (identifier, reached) in sorted(positions.items())
    ]  # fmt: skip
    catalog.create_namespace_if_not_exists(NAMESPACE)
    catalog.create_table_if_not_exists((NAMESPACE, RESYNCS), _SCHEMA).append(pa.Table.from_pylist(rows, _ARROW))


def under_way(catalog: Catalog, ledgers: Mapping[str, Ledger]) -> frozenset[str]:
    """Return the topics whose newest resync hasn't ended in their tables, which have these ledgers."""
    table = own_table(catalog, RESYNCS)
    if table is None:
        return frozenset()
    begun = table.scan(In(term="step", literals=(START, ANEW)), selected_fields=("id", "topic", "at")).to_arrow()
    newest = {row["topic"]: row["id"] for row in begun.sort_by("at").to_pylist()}
    return frozenset(topic for topic, identifier in newest.items() if not has_ended(ledgers.get(topic), identifier))


def has_ended(ledger: Ledger | None, identifier: str) -> bool:
    """Return whether a resync has ended in a table with this ledger. None: there is no such table yet."""
    return ledger is not None and ledger.resync == identifier and ledger.resynced is not None
