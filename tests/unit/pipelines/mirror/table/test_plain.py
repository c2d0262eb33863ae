"""Which batches are brought plainly, by a plan that is made once, and which are looked at."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges
from pipelines.mirror.table.mirror import TableMirror
from pipelines.schema.versions import Attribute
from tests.unit.pipelines.change_events import event, value_schema, wire
from tests.unit.pipelines.harness import (
    COLUMNS,
    GONE,
    PLAINLY,
    Topic,
    create,
    delete,
    poison,
    row,
    tombstone,
    truncate,
    update,
)

ID = Attribute(1, "id", "int8", -1, "int8")
NAME, DOC = Attribute(2, "name", "text", -1, "text"), Attribute(3, "doc", "text", -1, "text")

pytestmark = pytest.mark.skipif(not PLAINLY, reason="nothing is brought plainly")

Events = Callable[[Topic], list[tuple[object, ...]]]


def newer_schema(topic: Topic) -> list[tuple[object, ...]]:
    """An update by a schema that nobody has met yet."""
    schema = value_schema(topic.table, {**COLUMNS, "more": ["null", "string"]})
    topic.registry._schemas[17] = schema
    return [poison(wire(17, schema, event("u", 5, row(2, "newer") | {"more": "m"})))]


PLAIN: dict[str, Events] = {
    "updates": lambda _: [update(5, 1, "x"), update(6, 2, "y")],
    "a new row, a deleted one": lambda _: [create(5, 9, "n"), delete(6, 2), tombstone(2)],
    "several changes of one row": lambda _: [update(5, 1, "x"), delete(6, 1), tombstone(1), create(7, 1, "y")],
    "a change of a key, whole": lambda _: [delete(5, 1, 3), tombstone(1), create(5, 3, "moved", "big", old=1)],
    "an unchanged value": lambda _: [update(5, 1, "x", GONE)],
    "a change of a key, with an unchanged value": lambda _: [delete(5, 1, 3), create(5, 3, "moved", GONE, old=1)],
}
LOOKED_AT: dict[str, Events] = {
    "what isn't Avro": lambda _: [update(5, 1, "x"), poison(b"no")],
    "a truncate": lambda _: [truncate(5)],
    "a change of a key, with a value that an event before it has":
        lambda _: [update(4, 1, "x", "new"), delete(5, 1, 3), create(5, 3, "moved", GONE, old=1)],
    "two changes of a key, with an unchanged value":
        lambda _: [delete(5, 1, 3), create(5, 3, "moved", GONE, old=1), delete(6, 3, 5),
                   create(6, 5, "moved", GONE, old=3)],
    "a change of a key, of which one half came": lambda _: [delete(5, 1, 3), update(6, 2, "x")],
    "an unchanged value of a row that nobody knows": lambda _: [update(5, 8, "x", GONE)],
    "a schema that is new": newer_schema,
}  # fmt: skip


def begun(spark: SparkSession) -> tuple[Topic, TableMirror]:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a", "big"), create(2, 2, "b")]), 0)
    return topic, mirror


@pytest.mark.parametrize("events", PLAIN.values(), ids=PLAIN)
def test_what_is_plain_is_brought_plainly(spark: SparkSession, events: Events) -> None:
    topic, mirror = begun(spark)
    outcome = topic.apply(mirror, topic.batch(events(topic)), 1)
    assert dict(outcome.writers) == {"prepared": 1}
    topic.assert_ledger_is_whole()


def test_what_a_changed_key_left_out_is_the_old_row_s(spark: SparkSession) -> None:
    topic, mirror = begun(spark)
    moved = [delete(5, 1, 3), tombstone(1), create(5, 3, "moved", GONE, old=1), update(6, 3, "again", GONE),
             delete(7, 2), tombstone(2), create(8, 1, "other", "own")]  # fmt: skip
    outcome = topic.apply(mirror, topic.batch(moved), 1)
    assert topic.rows() == [(1, "other", "own"), (3, "again", "big")]
    topic.assert_ledger_is_whole()
    # The old key has a row of its own by now, whose event is beside the delete.
    assert outcome.writers["prepared"] == 0
    outcome = topic.apply(mirror, topic.batch([delete(9, 3, 7), create(9, 7, "last", GONE, old=3)]), 2)
    assert topic.rows() == [(1, "other", "own"), (7, "last", "big")]
    assert dict(outcome.writers) == {"prepared": 1}


@pytest.mark.parametrize("events", LOOKED_AT.values(), ids=LOOKED_AT)
def test_what_is_not_is_looked_at(spark: SparkSession, events: Events) -> None:
    topic, mirror = begun(spark)
    outcome = topic.apply(mirror, topic.batch(events(topic)), 1)
    assert outcome.writers["prepared"] == 0
    topic.assert_ledger_is_whole()


def test_of_a_table_with_open_letters_other_keys_are_brought_plainly(spark: SparkSession) -> None:
    topic, mirror = begun(spark)
    topic.apply(mirror, topic.batch([update(5, 8, "of a row that nobody knows", GONE)]), 1)
    assert topic.letters.reasons == ["unavailable_value"]
    outcome = topic.apply(mirror, topic.batch([update(6, 1, "x")]), 2)
    assert dict(outcome.writers) == {"prepared": 1}
    outcome = topic.apply(mirror, topic.batch([update(7, 8, "waits"), update(8, 2, "y")]), 3)
    assert outcome.writers["prepared"] == 0
    assert topic.letters.reasons == ["parked", "unavailable_value"]
    assert topic.rows() == [(1, "x", "d"), (2, "y", "d")]
    topic.assert_ledger_is_whole()


def test_what_a_truncate_made_void_does_not_come_after_it(spark: SparkSession) -> None:
    topic, mirror = begun(spark)
    topic.apply(mirror, topic.batch([truncate(5, partition=0)]), 1)
    # Written before the truncate, to another partition, and read after it.
    outcome = topic.apply(mirror, topic.batch([update(4, 1, "void")]), 2)
    assert outcome.writers["prepared"] == 0
    assert topic.rows() == []
    outcome = topic.apply(mirror, topic.batch([create(6, 3, "new")]), 3)
    assert dict(outcome.writers) == {"prepared": 1}
    assert topic.rows() == [(3, "new", "d")]
    topic.assert_ledger_is_whole()


def opened(topic: Topic) -> tuple[TableMirror, TopicOutcome]:
    """What a new process begins with, when it meets the topic."""
    mirror, outcome = topic.mirror(), TopicOutcome(topic.name)
    none, ranges = topic.batches[-1].limit(0), dict.fromkeys(range(2), (0, 0))
    mirror.open(TopicBatch(none, TopicProfile(topic.name), ranges, 7, topic.spark.newSession(), outcome), True)
    return mirror, outcome


def everything(topic: Topic) -> Ranges:
    return {partition: (0, end) for partition, end in enumerate(topic.offsets)}


def test_a_new_process_needs_no_look(spark: SparkSession) -> None:
    topic, _ = begun(spark)
    topic.batch([update(5, 1, "x", GONE)])
    mirror, outcome = opened(topic)
    assert mirror.is_plain(everything(topic))
    assert mirror.mirror_plainly(everything(topic), 7, spark.newSession(), outcome)
    assert topic.rows() == [(1, "x", "big"), (2, "b", "d")]
    topic.assert_ledger_is_whole()


def at_its_end(topic: Topic) -> Ranges:
    """What a batch that has nothing of the topic says of it."""
    return {partition: (end, end) for partition, end in enumerate(topic.offsets)}


def test_a_new_process_knows_what_was_left_unread_before_it(spark: SparkSession) -> None:
    topic, _ = begun(spark)
    mirror, _ = opened(topic)
    assert not mirror.lacks(at_its_end(topic))
    # Of a table that the process before held, for instance.
    topic.batch([poison(b"x")])
    mirror, _ = opened(topic)
    assert mirror.lacks(at_its_end(topic))
    assert not mirror.lacks(everything(topic))


def test_nor_does_a_table_that_is_not_there(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.schema_log.add(0, ID, NAME, DOC)
    topic.batch([create(1, 1, "a"), create(2, 2, "b"), update(3, 1, "x", GONE), delete(4, 2), tombstone(2)])
    assert topic.mirror().opens_plainly(everything(topic), spark)
    mirror, outcome = opened(topic)
    assert mirror.is_plain(everything(topic))
    assert mirror.mirror_plainly(everything(topic), 7, spark.newSession(), outcome)
    assert dict(outcome.writers) == {"prepared": 1}
    assert topic.rows() == [(1, "x", "d")]
    topic.assert_ledger_is_whole()


def test_it_follows_its_source_as_any_other(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.schema_log.add(0, ID, NAME, DOC)
    topic.batch([create(1, 1, "a"), create(2, 2, "b")])
    mirror, outcome = opened(topic)
    assert mirror.mirror_plainly(everything(topic), 7, spark.newSession(), outcome)
    topic.schema_log.add(5, ID, Attribute(2, "title", "text", -1, "text"))
    nothing = TopicBatch(
        topic.batches[-1].limit(0), TopicProfile(topic.name), everything(topic), 8, spark.newSession(), outcome
    )
    mirror.mirror(nothing, schema_changed=True)
    assert {"name", "doc"}.isdisjoint(topic.lake_table().column_types)
    assert [row.title for row in spark.table(f"lake.shop.{topic.table}").orderBy("id").collect()] == ["a", "b"]


UNKNOWN: dict[str, list[tuple[Attribute, ...]]] = {
    "the schema log has nothing of it yet": [],
    "it had other columns": [(ID, NAME), (ID, NAME, DOC)],
    "it has no key": [(NAME, DOC)],
}


@pytest.mark.parametrize("versions", UNKNOWN.values(), ids=UNKNOWN)
def test_one_of_which_more_must_be_known_is_looked_at(
    spark: SparkSession, versions: list[tuple[Attribute, ...]]
) -> None:
    topic = Topic(spark)
    for position, columns in enumerate(versions):
        topic.schema_log.add(position, *columns)
    topic.batch([create(2, 1, "a")])
    assert not topic.mirror().opens_plainly(everything(topic), spark)
    mirror, _ = opened(topic)
    assert not mirror.is_open


def test_what_was_written_first_may_be_gone(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.schema_log.add(0, ID, NAME, DOC)
    topic.batch([create(1, 1, "a"), create(2, 3, "b")])
    mirror, _ = opened(topic)
    later: Ranges = {0: (0, 0), 1: (1, 2)}
    assert not mirror.is_plain(later)


def test_what_somebody_has_committed_meanwhile_is_met(spark: SparkSession) -> None:
    topic, mirror = begun(spark)
    spark.sql(f"DELETE FROM lake.shop.{topic.table} WHERE id = 2")
    topic.apply(mirror, topic.batch([update(5, 1, "x")]), 1)
    assert topic.rows() == [(1, "x", "d")]
