"""Whether a resync is under way, by the ledger of its table."""

import pytest

from pipelines.ledger.entries import Ledger
from services.operations.resync.requests import has_ended


@pytest.mark.parametrize(
    ("ledger", "ended"),
    [
        (None, False),
        (Ledger(), False),
        (Ledger(resync="older", resynced=3), False),
        (Ledger(resync="newest"), False),
        (Ledger(resync="newest", resynced=0), True),
    ],
    ids=["no table yet", "not begun", "an older one has ended", "begun", "ended, and nothing was to be removed"],
)
def test_a_resync_has_ended_once_its_table_says_so(ledger: Ledger | None, ended: bool) -> None:
    assert has_ended(ledger, "newest") is ended
