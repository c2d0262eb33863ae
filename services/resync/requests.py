"""The lake's table of resyncs, which the mirror follows (see :mod:`pipelines.ledger.resyncs`)."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType, TimestamptzType

from pipelines.lake.names import NAMESPACE, RESYNCS

START, END = "start", "end"

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
