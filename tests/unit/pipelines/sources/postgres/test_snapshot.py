"""Which transactions a PostgreSQL snapshot sees."""

import pytest

from pipelines.sources.postgres.snapshot import Snapshot


@pytest.mark.parametrize(
    ("label", "text", "xid", "seen"),
    [
        ("before all", "100:110:103,105", 99, True),
        ("ended between", "100:110:103,105", 104, True),
        ("running", "100:110:103,105", 105, False),
        ("not begun", "100:110:103,105", 110, False),
        ("nothing runs", "100:100:", 99, True),
        ("second epoch, 32 bits", "4294967400:4294967410:4294967405", 104, True),
        ("second epoch, ended between", "4294967400:4294967410:4294967405", 108, True),
        ("second epoch, running", "4294967400:4294967410:4294967405", 4294967405 - (1 << 32), False),
        ("from the epoch before", "4294967300:4294967310:", 4294967290, True),
        ("into the epoch after", "4294967290:4294967294:", 3, False),
    ],
)
def test_snapshot_sees(label: str, text: str, xid: int, seen: bool) -> None:
    assert Snapshot.parse(text).sees(xid) is seen


def test_snapshot_is_printed_as_postgresql_prints_it() -> None:
    assert str(Snapshot.parse("100:110:103,105")) == "100:110:103,105"
    assert str(Snapshot.parse("100:100:")) == "100:100:"
