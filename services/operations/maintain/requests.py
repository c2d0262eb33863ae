"""Asking the mirror for upkeep, through a table of the lake, and waiting for what it has done."""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import In
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, NestedField, StringType, TimestamptzType

from pipelines.lake.names import MAINTENANCE, MAINTENANCE_REQUESTS, NAMESPACE
from pipelines.maintenance.plan import RequestKind
from pipelines.maintenance.record import ANSWERED
from services.stack.errors import LakehouseError
from services.stack.lake import own_table
from services.stack.progress import OnProgress, Progress, silent

POLL_SECONDS = 1.0
_SCHEMA = Schema(
    NestedField(1, "id", StringType(), required=True),
    NestedField(2, "table", StringType(), required=True),
    NestedField(3, "everything", BooleanType(), required=True),
    NestedField(4, "at", TimestamptzType(), required=True),
    NestedField(5, "purge", BooleanType()),
)
_ARROW = pa.schema([
    pa.field("id", pa.string(), nullable=False), pa.field("table", pa.string(), nullable=False),
    pa.field("everything", pa.bool_(), nullable=False), pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("purge", pa.bool_()),
])  # fmt: skip


class NotMaintained(LakehouseError):
    """What was asked for isn't done in time. The message says what to look at."""


@dataclass(frozen=True)
class Answer:
    """One task that was done, or failed, for a table."""

    table: str
    task: str
    why: str
    seconds: float | None
    files_before: int | None
    files_after: int | None
    snapshots_before: int | None
    snapshots_after: int | None
    bytes: int | None
    error: str | None


def ask(
    catalog: Catalog, names: Iterable[str], asked: RequestKind, timeout: float, on_progress: OnProgress = silent
) -> list[Answer]:
    """Ask for the tables' upkeep, and wait until all is done.

    Raises NotMaintained after ``timeout`` seconds: what was asked is done all the same, if the mirror gets to it within
    the hour.
    """
    rows = leave(catalog, names, asked)
    if not rows:
        return []
    identifiers = [str(row["id"]) for row in rows]
    deadline = time.monotonic() + timeout
    while True:
        found = list(_rows(catalog, identifiers))
        done = {row["table"] for row in found if row["task"] == ANSWERED}
        on_progress(Progress("upkeep", "waiting for the mirror", len(done), len(rows)))
        if len(done) == len(rows):
            names_of = Answer.__dataclass_fields__
            return [Answer(**{name: row[name] for name in names_of}) for row in found if row["task"] != ANSWERED]
        if time.monotonic() > deadline:
            left = ", ".join(sorted({str(row["table"]) for row in rows} - done))
            raise NotMaintained(
                f"not done after {timeout:.0f} s: {left}. The mirror does it between two batches, as long as it runs"
                " and the table isn't held (`make status`, `lakehouse table list`)."
            )
        time.sleep(POLL_SECONDS)


def leave(catalog: Catalog, names: Iterable[str], asked: RequestKind) -> list[dict[str, Any]]:
    """Ask for the tables' upkeep, and don't wait for it; what was written down, a row each."""
    rows = [{"id": str(uuid.uuid4()), "table": name, "everything": asked is not RequestKind.DUE,
             "at": datetime.now(UTC), "purge": asked is RequestKind.PURGE} for name in names]  # fmt: skip
    if rows:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        table = catalog.create_table_if_not_exists((NAMESPACE, MAINTENANCE_REQUESTS), _SCHEMA)
        with table.update_schema() as update:
            update.union_by_name(_SCHEMA)
        table.append(pa.Table.from_pylist(rows, _ARROW))
    return rows


def _rows(catalog: Catalog, identifiers: list[str]) -> Iterator[dict[str, Any]]:
    table = own_table(catalog, MAINTENANCE)
    if table is None:
        return
    rows = table.scan(row_filter=In(term="request", literals=set(identifiers))).to_arrow().to_pylist()
    yield from sorted(rows, key=lambda row: row["at"])
