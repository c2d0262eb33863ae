"""The audit trail: who did what to the lake, when and why, in a table of the lake.

An action is written down before it is done: what can't be written isn't done. How it ended is a second row, so an
action without one was broken off.
"""

import getpass
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, GreaterThanOrEqual
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField, StringType, TimestamptzType

from pipelines.lake.names import AUDIT, NAMESPACE
from services.stack.lake import own_table

BEGUN, DONE, FAILED = "begun", "done", "failed"
_COLUMNS = ("id", "step", "action", "target", "who", "because", "detail", "at")
_NEEDED = ("id", "step", "action", "target", "who", "at")
_SCHEMA = Schema(*(
    NestedField(number, name, TimestamptzType() if name == "at" else StringType(), required=name in _NEEDED)
    for number, name in enumerate(_COLUMNS, 1)
))  # fmt: skip
_ARROW = pa.schema([
    pa.field(name, pa.timestamp("us", tz="UTC") if name == "at" else pa.string(), nullable=name not in _NEEDED)
    for name in _COLUMNS
])  # fmt: skip


@dataclass
class Action:
    """What somebody does. ``target``: the tables or letters, as they were named. ``detail``: what came of it.

    ``by``: who does it; None: whoever runs the process.
    """

    action: str
    target: str
    because: str | None
    detail: dict[str, Any] = field(default_factory=dict)
    by: str | None = None


@dataclass(frozen=True)
class Entry:
    """An action, as the trail has it. ``outcome``: done, failed, or None: not ended, or broken off."""

    id: str
    action: str
    target: str
    who: str
    because: str | None
    at: datetime
    outcome: str | None
    ended_at: datetime | None
    detail: dict[str, Any]


def who() -> str:
    """Return the person: the system's user and machine, or what LAKEHOUSE_USER says.

    The latter is for a service that acts for somebody.
    """
    return os.environ.get("LAKEHOUSE_USER") or f"{getpass.getuser()}@{socket.gethostname()}"


@contextmanager
def audited(catalog: Catalog, action: str, target: str, because: str | None, by: str | None = None) -> Iterator[Action]:
    """Write down that this is done, let it be done, and write down how it ended. ``by``: see Action."""
    doing, identifier = Action(action, target, because, by=by), str(uuid.uuid4())
    _write(catalog, identifier, BEGUN, doing)
    try:
        yield doing
    except BaseException as error:
        # What it says may name a row.
        doing.detail["error"] = type(error).__name__
        _write(catalog, identifier, FAILED, doing)
        raise
    _write(catalog, identifier, DONE, doing)


def entries(catalog: Catalog, since: datetime | None = None) -> list[Entry]:
    """Return what was done, newest first; ``since``: begun then or later."""
    where: BooleanExpression = AlwaysTrue()
    if since is not None:
        where = GreaterThanOrEqual(term="at", value=since.isoformat())
    table = own_table(catalog, AUDIT)
    rows = [] if table is None else table.scan(where).to_arrow().to_pylist()
    ends = {row["id"]: row for row in rows if row["step"] != BEGUN}
    found = [_entry(row, ends.get(row["id"])) for row in rows if row["step"] == BEGUN]
    return sorted(found, key=lambda entry: entry.at, reverse=True)


def _entry(row: dict[str, Any], end: dict[str, Any] | None) -> Entry:
    ended = end or {}
    return Entry(
        row["id"],
        row["action"],
        row["target"],
        row["who"],
        row["because"],
        row["at"],
        ended.get("step"),
        ended.get("at"),
        json.loads(ended.get("detail") or "{}"),
    )


def _write(catalog: Catalog, identifier: str, step: str, doing: Action) -> None:
    row = {
        "id": identifier, "step": step, "action": doing.action, "target": doing.target, "who": doing.by or who(),
        "because": doing.because, "detail": json.dumps(doing.detail) if doing.detail else None,
        "at": datetime.now(UTC),
    }  # fmt: skip
    _trail(catalog).append(pa.Table.from_pylist([row], _ARROW))


def _trail(catalog: Catalog) -> Table:
    found = own_table(catalog, AUDIT)
    if found is None:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        found = catalog.create_table_if_not_exists((NAMESPACE, AUDIT), _SCHEMA)
    return found
