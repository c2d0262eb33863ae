"""What the service says in its log, for what its looks find."""

from datetime import UTC, datetime, timedelta

import structlog
from structlog.testing import capture_logs

from pipelines.sources.base.tables import KeyRange, SourceTable
from services.stack.stopping import Stop
from services.verifier.chunks import Job, Postponement
from services.verifier.service import Verifier
from services.verifier.settings import VerifierSettings
from services.verify.explanation import Facts, explain
from services.verify.rounds import ChunkResult, RowCounts, TableState, VerifiedPosition

TABLE = SourceTable("public", "t", (), ("id",))
MARK = VerifiedPosition(log_position="0/1", at=datetime(2026, 1, 1, tzinfo=UTC), snapshot_id=1)
DIFFERS = ChunkResult(after=None, upto=None, mark=MARK, rows=10, keys={"id=7": "differs", "id=9": "missing"})
EQUAL = DIFFERS.model_copy(update={"keys": {}})


def verifier() -> Verifier:
    settings = VerifierSettings.model_construct(verifier_again_seconds=30.0, verifier_pause_seconds=600.0)
    states = {"public.t": TableState(table="public.t", key=("id",))}
    return Verifier(settings, Stop(), structlog.get_logger(), states, explain=lambda _, names: {
        name: explain(name, f"shop.{name}", Facts(letters={"not_avro": 2})) for name in names
    })  # fmt: skip


def walk(service: Verifier, seen: ChunkResult) -> None:
    service._take(Job(TABLE, KeyRange()), seen)


def look_again(service: Verifier, seen: ChunkResult) -> None:
    finding = service.states["public.t"].findings[0]
    service._take(Job(TABLE, finding.within, finding), seen)


def test_an_alert_comes_once_and_with_the_second_look_and_its_end_is_told() -> None:
    service = verifier()
    with capture_logs() as log:
        walk(service, DIFFERS)
    assert log == [], "not yet a difference"
    with capture_logs() as log:
        look_again(service, DIFFERS)
    assert [(line["log_level"], line["table"], line["keys"]) for line in log] == [
        ("error", "public.t", {"differs": ["id=7"], "missing": ["id=9"]})
    ]
    assert log[0]["explanation"] == [
        "2 open dead letters of it: 2 not_avro; `lakehouse dlq list --topic shop.public.t`"
    ]
    with capture_logs() as log:
        look_again(service, DIFFERS)
        walk(service, DIFFERS)
    assert log == [], "told already"
    with capture_logs() as log:
        look_again(service, EQUAL)
    assert [line["event"] for line in log] == ["differs no more"]
    with capture_logs() as log:
        walk(service, EQUAL)
    assert [(line["event"], line["through"]) for line in log] == [("verified", "0/1")]


def test_why_a_table_is_put_off_is_told_once_and_kept() -> None:
    service = verifier()
    with capture_logs() as log:
        for _ in range(3):
            service._take(Job(TABLE, KeyRange()), Postponement("the mirror holds it: its key changed"))
    assert [line["event"] for line in log] == ["put off"]
    assert service.states["public.t"].not_compared == "the mirror holds it: its key changed"
    walk(service, EQUAL)
    assert service.states["public.t"].not_compared is None


def test_what_was_only_counted_is_told_with_both_counts() -> None:
    service = verifier()
    summed_up = EQUAL.model_copy(update={"more": 1, "counts": RowCounts(source=30_000, lake=30_000)})
    with capture_logs() as log:
        walk(service, summed_up)
        look_again(service, summed_up.model_copy(update={"more": 5, "counts": RowCounts(source=30_005, lake=30_000)}))
    assert [(line["rows"], line["counts"]) for line in log] == [(5, {"source": 30_005, "lake": 30_000})]
    assert "`lakehouse verify t`" in log[0]["next"]
    assert service.states["public.t"].counts == RowCounts(source=30_005, lake=30_000)


def test_what_was_read_whole_gives_way_to_others() -> None:
    service = verifier()
    walk(service, EQUAL)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert service.states["public.t"].walk_due(now, timedelta(minutes=10))
    assert not service.states["public.t"].give_way(now + timedelta(hours=1)).walk_due(now, timedelta(minutes=10))
