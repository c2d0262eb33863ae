"""What `lakehouse table show` says of a table's contract."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.table import Table as LakeTable

from pipelines.ledger.entries import BROKEN
from pipelines.protection.columns import column_protections
from quality import odcs
from quality.contract import Contract
from services.operations.contracts.diff import in_lake
from services.stack.lake import lineage


@dataclass(frozen=True)
class Promise:
    """A table's contract in short.

    ``broken``: what of it the lake's table doesn't keep; ``classes``: column to classification; ``columns``: column to
    description; ``protected``: column to what the contract says becomes of it.
    """

    version: str
    status: str
    owner: str | None
    steward: str | None
    description: str | None
    freshness_seconds: float | None
    retention_seconds: float | None
    broken: list[str]
    classes: dict[str, str]
    columns: dict[str, str]
    protected: dict[str, str]


def promise(
    source: tuple[str, str] | None, lake: Mapping[str, str], protected: Mapping[str, str] | None = None
) -> Promise | None:
    """Return a mirrored table's contract in short; None: it has none. Raises ContractError.

    ``lake``: its columns' Iceberg types; ``protected``: how its rows have those that they don't have as the source has
    them.
    """
    contract = odcs.load().get(source) if source is not None else None
    return None if contract is None else _promise(contract, lake, protected)


def protections(table: LakeTable) -> dict[str, str]:
    """Return column to what was done to its values, of those that aren't as the source has them."""
    return {name: entry.how for name, entry in column_protections(table.properties).items()}


def broken_rows(table: LakeTable) -> dict[str, int]:
    """Return promise to how many changes broke it, in the snapshots that the table still has."""
    found: dict[str, int] = {}
    for snapshot in lineage(table):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        for promise, count in json.loads(summary.get(BROKEN, "{}")).items():
            found[promise] = found.get(promise, 0) + count
    return dict(sorted(found.items()))


def _promise(contract: Contract, lake: Mapping[str, str], protected: Mapping[str, str] | None) -> Promise:
    return Promise(
        version=contract.version, status=contract.status, owner=contract.owner, steward=contract.steward,
        description=contract.description, freshness_seconds=contract.freshness_seconds,
        retention_seconds=contract.retention_seconds,
        broken=[str(each) for each in in_lake(contract, lake, (), protected) if each.breaking],
        classes={c.name: c.classification for c in contract.columns if c.classification},
        columns={c.name: c.description for c in contract.columns if c.description}, protected={**contract.protected},
    )  # fmt: skip
