"""Which tables are checked when it is time."""

from datetime import UTC, datetime

import pytest

from quality.contract import Column, Contract
from services.checker.record import CheckRun
from services.checker.service import due


def run(
    snapshot: int, contract: str = "1", error: str | None = None, success: bool = True, failed: int = 0,
    not_asked: int = 0,
) -> CheckRun:  # fmt: skip
    return CheckRun(
        "r", "shop.t", snapshot, contract, datetime.now(UTC), 1.0, success, 3, failed, not_asked, None, error
    )


@pytest.mark.parametrize(("snapshots", "runs", "expected"), [
    ({"shop.t": 7}, {}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7)}, []),
    ({"shop.t": 8}, {"shop.t": run(7)}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, contract="0")}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, error="it couldn't be read")}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, success=False, not_asked=2)}, ["shop.t"]),
    ({"shop.t": 7}, {"shop.t": run(7, not_asked=2)}, []),
    ({"shop.t": 7}, {"shop.t": run(7, success=False, failed=1)}, []),
    ({}, {}, []),
    ({"shop.other": 1}, {}, []),
], ids=["never", "as it was", "changed", "another contract", "it failed", "some couldn't be asked",
        "some are protected", "one is broken", "not in the lake", "none"])  # fmt: skip
def test_due(snapshots: dict[str, int], runs: dict[str, CheckRun], expected: list[str]) -> None:
    contracts = {"shop.t": Contract(("public", "t"), "1", "active", (Column("id"),))}
    assert due(snapshots, runs, contracts) == expected


@pytest.mark.parametrize(("found", "verdict", "in_vain"), [
    (run(7), "3 promises kept", False),
    (run(7, not_asked=2), "3 promises kept", False),
    (run(7, success=False, failed=1), "1 broken of 3", False),
    (run(7, success=False, failed=1, not_asked=1), "1 broken of 3", False),
    (run(7, success=False, not_asked=1), "3 promises kept, and others couldn't be asked", True),
    (run(7, success=False, error="it couldn't be read"), "it couldn't be read", True),
], ids=["kept", "some are protected", "broken", "broken and not asked", "not asked", "failed"])  # fmt: skip
def test_what_came_of_a_run(found: CheckRun, verdict: str, in_vain: bool) -> None:
    assert (found.verdict, found.couldnt_ask) == (verdict, in_vain)
