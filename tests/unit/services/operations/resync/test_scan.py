"""Whether a snapshot has read all: scripts of what the connector says."""

import pytest

from services.operations.resync.errors import CannotResync
from services.operations.resync.notifications import COMPLETED, INCREMENTAL, INITIAL, SCANNED, STARTED, Notification
from services.operations.resync.scan import Scan


def scanned(kind: str, table: str, status: str = "SUCCEEDED", rows: int = 1) -> Notification:
    return Notification(kind, SCANNED, table, status, rows)


def heard(kind: str, *said: Notification) -> Scan:
    scan = Scan(kind, ["public.a", "public.b"])
    for notification in said:
        scan.take(notification)
    return scan


A, B, DONE = scanned(INCREMENTAL, "public.a", rows=7), scanned(INCREMENTAL, "public.b", "EMPTY", 0), Notification(
    INCREMENTAL, COMPLETED
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        pytest.param([A, B, DONE], True, id="all"),
        pytest.param([A, B], False, id="not completed"),
        pytest.param([A, DONE], False, id="a table is missing"),
        pytest.param([A, DONE, B, DONE], True, id="in two snapshots"),
        pytest.param([A, scanned(INITIAL, "public.b"), DONE], False, id="a table is of another kind of snapshot"),
        pytest.param([A, scanned(INCREMENTAL, "public.c", "SQL_EXCEPTION"), B, DONE], True, id="another table fails"),
    ],
)
def test_whether_all_is_read(said: list[Notification], whole: bool) -> None:
    assert heard(INCREMENTAL, *said).whole is whole


def test_rows_are_counted() -> None:
    assert heard(INCREMENTAL, A, B, DONE).rows == {"public.a": 7, "public.b": 0}


@pytest.mark.parametrize("status", ["NO_PRIMARY_KEY", "SKIPPED", "SQL_EXCEPTION", "UNKNOWN_SCHEMA", None])
def test_what_was_not_read_whole_is_no_ground_to_remove_rows(status: str) -> None:
    with pytest.raises(CannotResync, match=r"public\.a"):
        heard(INCREMENTAL, scanned(INCREMENTAL, "public.a", status))


def test_a_whole_snapshot_begun_twice_is_told() -> None:
    with pytest.raises(CannotResync, match="begun again"):
        heard(INITIAL, Notification(INITIAL, STARTED), Notification(INITIAL, STARTED))
