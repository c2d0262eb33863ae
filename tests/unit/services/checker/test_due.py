"""Which tables are checked when it is time."""

from datetime import UTC, datetime

import pytest

from quality.contract import Column, Contract
from services.checker.record import CheckRun
from services.checker.service import due


def run(snapshot: int, contract: str = "1", error: str | None = None) -> CheckRun:
    return CheckRun("r", "shop.t", snapshot, contract, datetime.now(UTC), 1.0, True, 3, 0, 0, None, error)


@pytest.mark.parametrize(("snapshots", "runs", "expected"), [
    ({"shop.t": 7}, {}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7)}, []),
    ({"shop.t": 8}, {"shop.t": run(7)}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, contract="0")}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, error="it couldn't be read")}, ["shop.t"]),
    ({}, {}, []),
    ({"shop.other": 1}, {}, []),
], ids=["never", "as it was", "changed", "another contract", "it failed", "not in the lake", "none"])  # fmt: skip
def test_due(snapshots: dict[str, int], runs: dict[str, CheckRun], expected: list[str]) -> None:
    contracts = {"shop.t": Contract(("public", "t"), "1", "active", (Column("id"),))}
    assert due(snapshots, runs, contracts) == expected
