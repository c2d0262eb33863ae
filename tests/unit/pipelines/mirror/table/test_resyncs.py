"""Resyncs: what of a table is lost on the way is read again, and what the source no longer has goes."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.errors import StopPipeline
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges
from pipelines.ledger.entries import commit_entries, ledger_problems
from pipelines.ledger.resyncs import Resync
from pipelines.mirror.table.mirror import TableMirror
from tests.unit.pipelines.harness import Topic, create, delete, read, truncate, update

FIRST = [create(1, 1, "a"), create(2, 2, "b"), create(3, 3, "c"), create(4, 4, "d")]


class Source:
    """A topic with a table that holds rows 1 to 4, and what a resync does to both."""

    def __init__(self, spark: SparkSession) -> None:
        self.topic, self.number = Topic(spark), -1
        self.mirror: TableMirror = self.topic.mirror()
        self.take(FIRST)

    def take(self, events: list[tuple[Any, ...]], planned: Ranges | None = None) -> int:
        self.number += 1
        return self.topic.apply(self.mirror, self.topic.batch(events), self.number, planned).swept

    def begin(self, identifier: str = "one", anew: bool = False) -> None:
        self.topic.resyncs.newest = Resync(identifier, self.ends(), anew=anew)

    def end(self) -> None:
        begun = self.topic.resyncs.newest
        assert begun is not None
        self.topic.resyncs.newest = replace(begun, end=self.ends())

    def ends(self) -> dict[int, int]:
        return dict(enumerate(self.topic.offsets))

    def quiet(self) -> int:
        """A batch without a record of the topic."""
        self.number += 1
        planned = {p: (end, end) for p, end in self.ends().items()}
        seen, session = TopicProfile(self.topic.name), self.topic.spark.newSession()
        part = TopicBatch(self.topic.everything(), seen, planned, self.number, session, TopicOutcome(self.topic.name))
        return self.mirror.mirror(part).swept

    def names(self) -> dict[int, str]:
        return {row[0]: row[1] for row in self.topic.rows()}


@pytest.fixture
def source(spark: SparkSession) -> Source:
    return Source(spark)


def test_missed_changes_come_and_missed_deletes_go(source: Source) -> None:
    source.begin()
    # Of rows 1 and 2 an update and a delete were lost. 3 and 5 change while the table is read; 3 is left out of that.
    assert source.take([read(10, 1, "A"), update(11, 3, "C"), create(12, 5, "e"), read(13, 4, "d")]) == 0
    assert source.names() == {1: "A", 2: "b", 3: "C", 4: "d", 5: "e"}, "nothing goes before all was read"
    source.end()
    assert source.mirror.awaits()
    assert source.quiet() == 1
    assert source.names() == {1: "A", 3: "C", 4: "d", 5: "e"}
    assert not source.mirror.awaits()
    source.topic.assert_ledger_is_whole()


def test_a_resync_is_ended_once_and_holds_for_a_table_that_begins_again(source: Source) -> None:
    source.begin()
    source.take([read(10, 1, "A")])
    source.end()
    source.mirror = source.topic.mirror()
    assert source.quiet() == 3
    before = len(source.topic.summaries())
    assert source.quiet() == 0
    assert len(source.topic.summaries()) == before
    source.topic.spark.sql(f"DROP TABLE lake.shop.{source.topic.table}")
    source.take([create(12, 2, "again")])
    source.quiet()
    assert source.names() == {1: "A", 2: "again"}


def test_a_source_whose_log_went_back_is_followed(source: Source) -> None:
    source.take(
        [update(100, 1, "future"), truncate(200), create(201, 1, "a"), create(202, 2, "b"), create(203, 3, "c")]
    )
    source.begin()
    # Positions are small again. Row 3 changes before it was read, and again; a truncate is older than the lost one.
    source.take([update(50, 3, "C"), read(51, 1, "A"), delete(52, 3), create(53, 3, "CC")])
    source.take([create(54, 4, "D")])
    source.end()
    assert source.quiet() == 1
    assert source.names() == {1: "A", 3: "CC", 4: "D"}
    source.take([truncate(60), create(61, 9, "new")])
    assert source.names() == {9: "new"}


def test_a_batch_across_the_beginning_is_taken_in_two_steps(source: Source) -> None:
    source.take([truncate(200)])
    older = source.topic.batch([create(201, 1, "before")])
    source.begin()
    newer = source.topic.batch([read(50, 2, "after")])
    both, planned = older.union(newer), {p: (0, end) for p, end in source.ends().items()}
    source.topic.apply(source.mirror, both, 9, planned)
    assert source.names() == {1: "before", 2: "after"}
    source.topic.assert_ledger_is_whole()


def test_offsets_that_kafka_lost_are_given_up_only_for_a_resync(source: Source) -> None:
    source.topic.batch([update(10, 1, "lost"), delete(11, 2)])
    source.topic.held = list(source.topic.offsets)
    late = [read(20, 1, "read"), read(21, 3, "c"), read(22, 4, "d")]
    lost = source.ends()
    batch = source.topic.batch(late)
    planned = {p: (lost[p], end) for p, end in source.ends().items()}
    with pytest.raises(StopPipeline, match=r"lakehouse resync public\.t\d+` \(infra/runbooks/offsets-lost"):
        source.topic.apply(source.mirror, batch, 1, planned)
    source.topic.resyncs.newest = Resync("one", lost, source.ends())
    assert source.topic.apply(source.mirror, batch, 1, planned).swept == 1
    assert source.names() == {1: "read", 3: "c", 4: "d"}
    history = commit_entries(source.topic.summaries())
    assert ledger_problems(history, complete=True) == []
    assert [commit.lost for commit in history if commit.lost] == [{0: (2, 3), 1: (2, 3)}]


def test_a_table_whose_topic_was_given_partitions_waits_for_a_resync(source: Source) -> None:
    planned = {p: (0, end) for p, end in source.ends().items()}
    with pytest.raises(StopPipeline, match="2 before, 3 now"):
        source.take([], {**planned, 2: (0, 0)})
    source.topic.offsets.append(0)
    source.topic.held.append(0)
    source.begin()
    moved = [(*read(20 + key, key, "m"), 2) for key in (1, 2, 3)]
    source.take(moved, {**planned, 2: (0, 3)})
    source.end()
    assert source.quiet() == 1
    assert source.names() == {1: "m", 2: "m", 3: "m"}
    source.topic.assert_ledger_is_whole()


def renewed(source: Source, events: list[tuple[Any, ...]], identity: str = "second") -> Ranges:
    """A topic under the name of the old one, with these events; what a batch of all of them is planned from."""
    source.topic.renew(identity)
    source.topic.batch(events)
    source.mirror = source.topic.mirror()
    return {p: (0, end) for p, end in source.ends().items()}


@pytest.mark.parametrize(
    ("identity", "events", "why"),
    [
        pytest.param("second", [create(5, 1, "x")] * 9, "was deleted and made anew", id="made anew, and longer by now"),
        pytest.param("second", [create(5, 1, "x")], "was deleted and made anew", id="made anew"),
        pytest.param("first", [create(5, 1, "x")], "ends at 0 in partition 0, before 2", id="the same, restored"),
    ],
)
def test_a_renewed_topic_is_not_passed_over(
    source: Source, identity: str, events: list[tuple[Any, ...]], why: str
) -> None:
    planned, before = renewed(source, events, identity), source.names()
    for resync in (None, Resync("old", {0: 0, 1: 0}), Resync("old", {0: 0, 1: 0}, {0: 0, 1: 0})):
        source.topic.resyncs.newest = resync
        with pytest.raises(StopPipeline, match=rf"{why}.*lakehouse resync --all.*kafka-lost"):
            source.topic.apply(source.mirror, source.topic.everything(), 1, planned)
    assert source.names() == before


@pytest.mark.parametrize(("identity", "end"), [("second", False), ("second", True), ("first", True)])
def test_a_table_begins_anew_with_a_renewed_topic(source: Source, identity: str, end: bool) -> None:
    """What was read before the resync began is superseded, as anything of the topic that is gone.

    Also where nothing shows any more that the topic was renewed, because it is longer by now.
    """
    source.topic.letters.kept[0, 1] = "undecodable"
    source.topic.letters.closed.add((0, 1))
    # Positions are small again: the source was restored, too.
    renewed(source, [read(1, 1, "A"), read(1, 2, "B")], identity)
    source.begin(anew=True)
    source.topic.batch([read(2, 1, "AA"), read(2, 3, "CC")])
    planned = {p: (0, end) for p, end in source.ends().items()}
    assert source.topic.apply(source.mirror, source.topic.everything(), 1, planned).swept == 0
    assert source.names() == {1: "AA", 2: "B", 3: "CC", 4: "d"}
    assert source.topic.letters.closed == {(0, -2)}
    source.topic.assert_ledger_is_whole()
    if end:
        source.end()
        assert source.quiet() == 2
        assert source.names() == {1: "AA", 3: "CC"}
        # Another process, and a renewal for which nobody has asked for anything yet.
        again = renewed(source, [read(3, 1, "Z")], "third")
        with pytest.raises(StopPipeline, match="made anew"):
            source.topic.apply(source.mirror, source.topic.everything(), 1, again)
