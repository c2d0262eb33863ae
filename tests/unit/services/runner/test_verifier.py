"""What `make status` says of what the verifier knows."""

from datetime import UTC, datetime

from rich.console import Console

from services.runner import verifier
from services.runner.verifier import Verified
from services.verify.explanation import Facts, explain
from services.verify.rounds import Finding, RowCounts, TableState, VerifiedPosition

MARK = VerifiedPosition(log_position="0/1", at=datetime(2026, 1, 1, tzinfo=UTC), snapshot_id=1)
NAMED = Finding(after=None, upto=None, keys={"id=7": "missing"}, more=0, problems=(), found=MARK, ends={},
                looked_at=MARK.at, confirmed=1)  # fmt: skip
COUNTED = NAMED.model_copy(update={"keys": {}, "more": 1, "counts": RowCounts(source=30_001, lake=30_000)})
KNOWN = Verified(
    [
        TableState(table="public.a", findings=(NAMED,)),
        TableState(table="public.b", findings=(COUNTED,)),
        TableState(table="public.c", verified=MARK),
    ],
    {
        "public.a": explain("public.a", "shop.public.a", Facts(letters={"decode": 1})),
        "public.b": explain("public.b", "shop.public.b", Facts()),
    },
)


def test_a_difference_is_told_with_what_explains_it() -> None:
    console = Console(width=300)
    with console.capture() as capture:
        console.print(verifier.table(KNOWN))
    lines = [line.strip() for line in capture.get().splitlines()]
    assert lines[0] == "verifier     1 of 3 tables verified, each through 2026-01-01 00:00:00 UTC or later"
    assert [line.split(None, 1)[0] for line in lines[1:]] == ["differs", "because", "differs", "because"]
    assert "public.a: 1; see" in lines[1]
    assert "1 open dead letter of it: 1 decode; `lakehouse dlq list --topic shop.public.a`" in lines[2]
    assert "public.b: at least 1; 30,001 rows in the source, 30,000 in the lake; see `lakehouse verify" in lines[3]
    assert "unexplained" in lines[4]
    assert not verifier.is_healthy(KNOWN)


def test_programs_are_told_too() -> None:
    told = verifier.as_json(KNOWN)
    assert told is not None
    assert told["differences"] == {"public.a": 1, "public.b": 1}
    assert {table: [each["cause"] for each in found] for table, found in told["explanations"].items()} == {
        "public.a": ["dead letters"], "public.b": ["unexplained"],
    }  # fmt: skip
