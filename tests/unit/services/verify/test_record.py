"""What the verifier publishes of a table, and takes up again."""

from datetime import UTC, datetime

from services.verify import record
from services.verify.rounds import Finding, TableState, VerifiedPosition

MARK = VerifiedPosition(log_position="0/19E3288", at=datetime(2026, 1, 1, tzinfo=UTC), snapshot_id=4711)
DIFFERS = Finding(
    after=("7",), upto=None, keys={"id=9": "missing"}, more=2, problems=("column v is missing in the lake",),
    found=MARK, ends={0: 5}, looked_at=MARK.at, confirmed=3,
)  # fmt: skip


def test_what_is_published_comes_back_and_what_is_pending_is_not_published() -> None:
    pending = DIFFERS.model_copy(update={"confirmed": 0, "keys": {"id=1": "extra"}})
    state = TableState(table="public.t", verified=MARK, ended_at=MARK.at, findings=(DIFFERS, pending), cursor=("9",))
    published = record.row(state)
    assert (published["verified_through"], published["snapshot_id"], published["differences"]) == ("0/19E3288", 4711, 4)
    back = record.state(published)
    assert (back.verified, back.ended_at, back.cursor) == (MARK, MARK.at, None)
    assert [(f.within, f.keys, f.more, f.problems) for f in back.findings] == [
        (DIFFERS.within, DIFFERS.keys, DIFFERS.more, DIFFERS.problems)
    ]
    assert back.differences == 4
    assert record.row(back) == published


def test_a_table_that_was_never_verified_says_so() -> None:
    published = record.row(TableState(table="public.t", not_compared="no key"))
    assert (published["verified_through"], published["verified_at"], published["findings"]) == (None, None, "[]")
    assert record.state(published).not_compared == "no key"
