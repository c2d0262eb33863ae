"""What the verifier knows of each table, in a table of the lake, where everyone can read it.

It is written whole, about once a round: it has a row a table, one data file, and few snapshots. Files of older
snapshots are deleted with them, so that it doesn't grow.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from pipelines.lake.names import NAMESPACE, VERIFICATION
from services.stack.errors import CannotVerify
from services.stack.lake import own_table
from services.verify.rounds import Finding, TableState, VerifiedPosition

SNAPSHOTS = 40

_SCHEMA = Schema(
    NestedField(1, "table", StringType(), required=True, doc="schema.table in the source"),
    NestedField(2, "verified_through", StringType(), doc="log position through which the lake equals the source"),
    NestedField(3, "verified_at", TimestamptzType(), doc="the source's clock at that position"),
    NestedField(4, "snapshot_id", LongType(), doc="the lake's snapshot that was compared there"),
    NestedField(5, "round_ended_at", TimestamptzType()),
    NestedField(6, "differences", LongType(), required=True, doc="rows that are known to differ, and other problems"),
    NestedField(7, "findings", StringType(), required=True, doc="JSON: ranges of keys, and the keys that differ"),
    NestedField(8, "not_compared", StringType(), doc="why the table isn't compared"),
)
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "10"}
_TOLD = {"after", "upto", "keys", "more", "problems", "found", "counts"}
Row = dict[str, Any]


def write(catalog: Catalog, states: Iterable[TableState]) -> None:
    """Replace what is known by ``states``, in one commit. Raises PyIceberg's errors."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    table = catalog.create_table_if_not_exists((NAMESPACE, VERIFICATION), _SCHEMA, properties=_PROPERTIES)
    rows = pa.Table.from_pylist([row(state) for state in states], table.schema().as_arrow())
    if table.current_snapshot() is None:
        table.append(rows)
    else:
        table.overwrite(rows)
    if len(table.snapshots()) > SNAPSHOTS:
        _expire(table, SNAPSHOTS // 2)


def forget_older(table: Table) -> int:
    """Give up all snapshots but the newest, with the files that only they had: how many. Raises PyIceberg's errors."""
    retry = Retrying(retry=retry_if_exception_type(CommitFailedException), stop=stop_after_attempt(5), reraise=True)
    return retry(lambda: _expire(table.refresh(), 1))


def read(catalog: Catalog) -> list[TableState]:
    """Return what was last written: without the round that was under way."""
    table = own_table(catalog, VERIFICATION)
    rows: list[Row] = [] if table is None else table.scan().to_arrow().to_pylist()
    return [state(row) for row in sorted(rows, key=lambda row: row["table"])]


def row(state: TableState) -> Row:
    """Return the table's row."""
    verified = state.verified
    return {
        "table": state.table,
        "verified_through": verified and verified.log_position,
        "verified_at": verified and verified.at,
        "snapshot_id": verified and verified.snapshot_id,
        "round_ended_at": state.ended_at,
        "differences": state.differences,
        "findings": json.dumps([finding.model_dump(mode="json", include=_TOLD) for finding in state.confirmed]),
        "not_compared": state.not_compared,
    }


def state(row: Row) -> TableState:
    """Return the state that a row tells."""
    at: datetime | None = row["verified_at"]
    verified = at and VerifiedPosition(log_position=row["verified_through"], at=at, snapshot_id=row["snapshot_id"])
    findings = tuple(
        Finding(**told, ends={}, looked_at=told["found"]["at"], confirmed=1) for told in json.loads(row["findings"])
    )
    return TableState(
        table=row["table"], verified=verified, ended_at=row["round_ended_at"], not_compared=row["not_compared"],
        findings=findings,
    )  # fmt: skip


def _expire(table: Table, newest: int) -> int:
    """Give older snapshots up, and delete the files that only they had."""
    snapshots = sorted(table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms)
    old, kept = snapshots[:-newest], snapshots[-newest:]
    if not old:
        return 0
    unused = _files(table, old) - _files(table, kept)
    table.maintenance.expire_snapshots().by_ids([snapshot.snapshot_id for snapshot in old]).commit()
    for path in sorted(unused):
        table.io.delete(path)
    return len(old)


def _files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    found = set()
    for snapshot in snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return found


def named(states: Iterable[TableState], names: Iterable[str]) -> list[TableState]:
    """Return the states of the named tables; all, if none is named.

    A name is ``table`` (in the schema public) or ``schema.table``.

    Raises CannotVerify for a name that no table has.
    """
    wanted, found = set(names), list(states)
    unknown = wanted - {name for state in found for name in _names(state)}
    if unknown:
        raise CannotVerify(
            f"the verifier knows no table called {', '.join(sorted(unknown))} (yet); `lakehouse verify --continuous`"
            " shows those that it knows."
        )
    return [state for state in found if not wanted or wanted & _names(state)]


def _names(state: TableState) -> set[str]:
    return {state.table, state.table.removeprefix("public.")}
