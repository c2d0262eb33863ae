"""What a table holds after batches of events: cases as labelled data, through decode, admit, fold and merge."""

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import StopPipeline
from pipelines.kafka.profile import TopicProfile
from pipelines.ledger.entries import Counts, commit_entries
from pipelines.limits import Limits
from pipelines.mirror.table.topic import Topic as TopicReader
from tests.unit.pipelines.cases import Case, Found, alone, together
from tests.unit.pipelines.change_events import event, value_schema, wire
from tests.unit.pipelines.harness import (
    COLUMNS,
    GONE,
    KEY_ID,
    VALUE_ID,
    Registry,
    Topic,
    create,
    delete,
    poison,
    read,
    row,
    tombstone,
    truncate,
    update,
)

# They share a table, in which the keys of each are its own.
CASES = [
    Case("inserts", [[create(1, 1, "a"), create(2, 2, "b")]], [(1, "a", "d"), (2, "b", "d")]),
    Case("update in a later batch", [[create(1, 1, "a")], [update(2, 1, "b")]], [(1, "b", "d")]),
    Case("update in the same batch", [[create(1, 1, "a"), update(2, 1, "b")]], [(1, "b", "d")]),
    Case("delete in a later batch", [[create(1, 1, "a")], [delete(2, 1), tombstone(1)]], []),
    Case("insert, update and delete in one batch", [[create(1, 1, "a"), update(2, 1, "b"), delete(3, 1)]], []),
    Case("delete, then insert again in one batch",
          [[create(1, 1, "a")], [delete(2, 1), tombstone(1), create(3, 1, "z")]], [(1, "z", "d")]),
    Case("delete of an unknown key", [[create(1, 1, "a")], [delete(2, 9)]], [(1, "a", "d")]),
    Case("key change", [[create(1, 1, "a")], [delete(2, 1), tombstone(1), create(2, 5, "a", old=1)]], [(5, "a", "d")]),
    Case("an older event after a newer one is ignored",
          [[create(9, 1, "new")], [update(3, 1, "old")]], [(1, "new", "d")]),
    Case("what a snapshot read takes its place in the topic, whatever its log position",
         [[create(9, 1, "a"), read(9, 2, "b")], [read(5, 1, "again"), update(7, 2, "c")]],
         [(1, "again", "d"), (2, "c", "d")]),
    Case("unchanged TOAST value stays", [[create(1, 1, "a", "big")], [update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("unchanged TOAST value after an insert in the same batch",
          [[create(1, 1, "a", "big"), update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("unchanged TOAST value after a change of it in the same batch",
          [[create(1, 1, "a", "big")], [update(2, 1, "a", "bigger"), update(3, 1, "c", GONE)]], [(1, "c", "bigger")]),
    Case("TOAST value changed and unchanged, of two keys in one batch",
          [[create(1, 1, "a", "one"), create(2, 2, "b", "two")], [update(3, 1, "A", GONE), update(4, 2, "B", "new")]],
         [(1, "A", "one"), (2, "B", "new")]),
    Case("unchanged TOAST value and then a delete",
          [[create(1, 1, "a", "big")], [update(2, 1, "b", GONE), delete(3, 1)]],
         []),
    Case("unchanged TOAST value of a row that nobody knows",
          [[create(1, 1, "a")], [update(2, 9, "b", GONE)]], [(1, "a", "d")], ["unavailable_value"]),
    Case("key change with an unchanged TOAST value in the table",
          [[create(1, 1, "a", "big")], [delete(2, 1), tombstone(1), create(2, 5, "a", GONE, old=1)]],
         [(5, "a", "big")]),
    Case("key change with an unchanged TOAST value in the batch",
          [[create(1, 1, "a", "big"), update(2, 1, "a", "bigger"), delete(3, 1), create(3, 5, "a", GONE, old=1)]],
         [(5, "a", "bigger")]),
    Case("two key changes of a row in one batch",
          [[create(1, 1, "a", "big")], [delete(2, 1), create(2, 5, "a", GONE, old=1), delete(3, 5),
                                       create(3, 6, "a", GONE, old=5), update(4, 6, "b", GONE)]], [(6, "b", "big")]),
    Case("two rows swap keys",
          [[create(1, 1, "a", "one"), create(2, 2, "b", "two")],
          [delete(3, 1), create(3, 9, "a", GONE, old=1), delete(4, 2), create(4, 1, "b", GONE, old=2), delete(5, 9),
           create(5, 2, "a", GONE, old=9)]], [(1, "b", "two"), (2, "a", "one")]),
    Case("not Avro at all", [[create(1, 1, "a"), poison(b"not avro")]], [(1, "a", "d")], ["not_avro"]),
    Case("unknown schema id", [[create(1, 1, "a"), poison(b"\x00\x00\x00\x03\xe7rest")]], [(1, "a", "d")],
         ["unknown_schema"]),
    Case("truncated Avro",
          [[create(1, 1, "a"), poison(b"\x00\x00\x00\x00\x07\x02")]], [(1, "a", "d")], ["undecodable"]),
    Case("records that can't be used for reasons of different stages",
         [[create(1, 1, "a")], [poison(b"x"), update(2, 9, "b", GONE), update(3, 1, "c")]], [(1, "c", "d")],
         ["not_avro", "unavailable_value"]),
]  # fmt: skip
ALONE = [
    Case("first batch holds only a delete", [[delete(1, 1)], [create(2, 2, "b")]], [(2, "b", "d")]),
    Case("truncate", [[create(1, 1, "a")], [truncate(2)]], []),
    Case("truncate between inserts of one batch",
          [[create(1, 1, "a"), truncate(2), create(3, 2, "b")]], [(2, "b", "d")]),
    Case("truncate, then the same key again",
          [[create(1, 1, "a", "big")], [truncate(2), create(3, 1, "b", "new")]], [(1, "b", "new")]),
    Case("truncate read before an older insert of another partition",
          [[create(1, 1, "a"), truncate(5)], [create(3, 2, "older"), create(7, 3, "newer")]], [(3, "newer", "d")]),
    Case("truncate read after a newer insert of another partition",
          [[create(1, 1, "a"), create(7, 2, "newer")], [truncate(5)]], [(2, "newer", "d")]),
    Case("a truncate before anything that has a key",
         [[truncate(1), poison(b"not avro")], [create(2, 1, "a")], [update(3, 1, "b")]], [(1, "b", "d")],
         ["not_avro"]),
    Case("a truncate before anything that has a key, read before an older insert of another partition",
         [[truncate(5)], [create(3, 2, "older")], [create(7, 3, "newer")]], [(3, "newer", "d")]),
    Case("only broken records, each for a reason of its own",
         [[poison(b"x"), poison(b"\x00\x00\x00\x03\xe7rest")], [create(1, 1, "a")]], [(1, "a", "d")],
         ["not_avro", "unknown_schema"]),
    Case("a lost value of a row that the table never had", [[update(1, 1, "a", GONE), create(2, 2, "b")]],
         [(2, "b", "d")], ["unavailable_value"]),
    Case("only broken records", [[poison(b"x"), poison(b"")], [create(1, 1, "a")]], [(1, "a", "d")],
         ["not_avro", "not_avro"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(spark: SparkSession) -> list[Found]:
    return together(Topic(spark), CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.label for case in CASES])
def test_table_after_batches(shared: list[Found], number: int) -> None:
    assert shared[number] == Found(CASES[number].rows, sorted(CASES[number].dead))


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.label)
def test_table_of_its_own(spark: SparkSession, case: Case) -> None:
    assert alone(Topic(spark), case) == Found(case.rows, sorted(case.dead))


STRATEGIES = {
    "few, listed": Limits(rows_per_key=0),
    "more, neither listed nor filtered": Limits(rows_per_key=0, few_records=0),
    "few, filtered": Limits(rows_per_key=0, listed_keys=0),
    "more, filtered": Limits(rows_per_key=0, few_records=0, listed_keys=0),
    "many, filtered": Limits(rows_per_key=0, few_records=0, cached_offsets=0, listed_keys=0),
    "many, not looked at first": Limits(
        rows_per_key=0, few_records=0, cached_offsets=0, listed_keys=0, expected_offsets=0
    ),
}
# Between the others, by what they do.
SELDOM = {"few, filtered", "more, filtered", "many, filtered", "more, neither listed nor filtered"}


@pytest.mark.parametrize(
    "limits",
    [pytest.param(limits, id=name, marks=[pytest.mark.slow] * (name in SELDOM)) for name, limits in STRATEGIES.items()],
)
def test_every_record_is_counted_as_what_became_of_it(spark: SparkSession, limits: Limits) -> None:
    topic = Topic(spark, budget=None)
    topic.limits = limits
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), update(2, 1, "b"), create(3, 2, "c"), poison(b"x")]), 0)
    topic.apply(mirror, topic.batch([delete(4, 1), tombstone(1), update(5, 9, "z", GONE), update(6, 9, "z", GONE)]), 1)
    topic.apply(mirror, topic.batch([create(7, 4, "a"), truncate(8), create(9, 4, "b"), update(10, 4, "c")]), 2)
    topic.apply(mirror, topic.batch([tombstone(4), poison(b"y")]), 3)
    assert topic.rows() == [(4, "c", "d")]
    counts = [commit.counts for commit in commit_entries(topic.summaries())]
    assert counts == [
        Counts(merged=2, superseded=1, dead_lettered=1),
        Counts(merged=1, superseded=1, dead_lettered=1, tombstones=1),
        Counts(merged=1, superseded=2, truncates=1),
        Counts(dead_lettered=1, tombstones=1),
    ]
    topic.assert_ledger_is_whole()


def test_a_large_part_that_goes_on_as_the_last_one_is_read_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(spark)
    topic.limits = Limits(expected_offsets=0, plain_offsets=0)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    looks = _looks(monkeypatch)
    topic.marker(0)
    records = topic.batch([update(3, 1, "c"), (1, b"x", None), delete(4, 2), tombstone(2)])
    outcome = topic.apply(mirror, records, 1, {0: (1, 4), 1: (1, 3)})
    assert (looks, outcome.rows, topic.rows()) == ([], 4, [(1, "c", "d")])
    assert outcome.counts == Counts(merged=2, dead_lettered=1, tombstones=1)
    topic.assert_ledger_is_whole()


NEW_COLUMN_ID = VALUE_ID + 10


@pytest.mark.parametrize("different", ["another schema", "a schema nobody knows", "no key", "only tombstones"])
def test_a_large_part_that_turns_out_to_be_different_is_looked_at(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, different: str
) -> None:
    topic = Topic(spark)
    topic.limits = Limits(expected_offsets=0, plain_offsets=0)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    looks = _looks(monkeypatch)
    newer = value_schema(topic.table, {**COLUMNS, "extra": ["null", "string"]})
    topic.registry = Registry({VALUE_ID: topic.value_schema, KEY_ID: topic.key_schema, NEW_COLUMN_ID: newer})
    topic.source.registry = topic.registry
    value = wire(NEW_COLUMN_ID, newer, event("u", 4, {**row(2, "d"), "extra": "e"}))
    events, dead = {
        "another schema": ([update(3, 1, "c"), (2, value, None)], 0),
        "a schema nobody knows": ([update(3, 1, "c"), (2, b"\x00\x00\x00\xff\xffnews", None)], 1),
        "no key": ([update(3, 1, "c"), (None, event("u", 4, row(2, "d")), None, 0)], 0),
        "only tombstones": ([tombstone(1)], 0),
    }[different]
    outcome = topic.apply(mirror, topic.batch(events), 1)
    assert looks == [topic.name]
    assert (outcome.rows, outcome.counts.dead_lettered) == (len(events), dead)
    found = {key: name for key, name, _ in topic.rows()}
    assert (
        found
        == {
            "another schema": {1: "c", 2: "d"},
            "a schema nobody knows": {1: "c", 2: "b"},
            "no key": {1: "c", 2: "d"},
            "only tombstones": {1: "a", 2: "b"},
        }[different]
    )
    assert ("extra" in spark.table(f"lake.shop.{topic.table}").columns) == (different == "another schema")
    topic.assert_ledger_is_whole()


def _looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose records were looked at since, in a pass of its own."""
    looks: list[str] = []
    look = TopicReader.profile

    def watched(self: TopicReader, records: DataFrame) -> TopicProfile:
        looks.append(self.name)
        return look(self, records)

    monkeypatch.setattr(TopicReader, "profile", watched)
    return looks


def test_offsets_without_a_record_wait_for_the_next_commit(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    nothing = topic.batch([create(1, 2, "a")]).where("false")
    topic.apply(mirror, topic.batches[0], 0, {0: (0, 1), 1: (0, 0)})
    topic.marker(0)
    mirror.pass_over({0: (1, 2), 1: (0, 0)})
    topic.marker(1)
    topic.apply(mirror, nothing, 2, {0: (2, 2), 1: (0, 1)})
    assert len(topic.summaries()) == 1
    last = topic.batch([update(2, 2, "b")])
    outcome = topic.apply(mirror, last, 3, {0: (2, 3), 1: (1, 1)})
    assert (outcome.reread, topic.rows()) == (0, [(2, "b", "d")])
    assert json.loads(topic.summaries()[-1]["lakehouse.offsets"]) == {"0": [1, 3], "1": [0, 1]}
    topic.assert_ledger_is_whole()


def test_what_a_table_was_left_out_of_comes_with_the_next_batch_in_one_commit(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.batch([update(3, 1, "c"), update(4, 2, "d"), tombstone(4)])
    topic.batch([update(5, 1, "e"), poison(b"x")])
    last = topic.batch([update(6, 1, "f"), create(7, 3, "g")])
    assert mirror.reached == {0: 1, 1: 1}
    outcome = topic.apply(mirror, last, 3, {0: (4, 4), 1: (3, 5)})
    assert outcome.reread == 5
    assert topic.rows() == [(1, "f", "d"), (2, "d", "d"), (3, "g", "d")]
    assert len(topic.summaries()) == 2
    assert json.loads(topic.summaries()[-1]["lakehouse.counts"]) == {
        "merged": 3, "superseded": 2, "dead_lettered": 1, "tombstones": 1, "truncates": 0,
    }  # fmt: skip
    topic.assert_ledger_is_whole()


def test_a_table_that_was_left_out_goes_on_from_its_ledger(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    planned = {0: (4, 4), 1: (3, 5)}
    assert mirror.from_ledger(planned) == planned, "nothing is known of a table that hasn't been looked at"
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.batch([update(3, 1, "c"), update(4, 2, "d"), tombstone(4)])
    topic.batch([update(5, 1, "e"), poison(b"x")])
    topic.batch([update(6, 1, "f"), create(7, 3, "g")])
    whole = mirror.from_ledger(planned)
    assert whole == {0: (1, 4), 1: (1, 5)}
    outcome = topic.apply(mirror, topic.everything().where("offset > 0"), 3, whole)
    assert outcome.reread == 0
    assert topic.rows() == [(1, "f", "d"), (2, "d", "d"), (3, "g", "d")]
    assert len(topic.summaries()) == 2
    topic.assert_ledger_is_whole()
    following = {0: (4, 6), 1: (5, 6)}
    assert mirror.from_ledger(following) == following, "it lacks nothing"

    later = {0: (6, 7), 1: (5, 5)}
    assert mirror.from_ledger(later) == {0: (4, 7), 1: (5, 5)}
    topic.at_once = 2
    assert mirror.from_ledger(later) == later, "it is more than a batch may bring"
    topic.at_once = 3
    topic.held[0] = 5
    assert mirror.from_ledger(later) == later, "Kafka has lost it"


def test_what_doesnt_fit_into_one_batch_comes_first(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.limits = Limits(plain_offsets=0)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.batch([update(3, 1, "c"), update(4, 2, "d")])
    topic.at_once = 2
    topic.apply(mirror, topic.batch([update(5, 1, "e")]), 2, {0: (2, 2), 1: (2, 3)})
    assert topic.rows() == [(1, "e", "d"), (2, "d", "d")]
    assert len(topic.summaries()) == 3
    topic.assert_ledger_is_whole()


def test_a_table_that_was_dropped_is_made_whole_from_its_topic(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b"), poison(b"x")]), 0)
    spark.sql(f"DROP TABLE lake.shop.{topic.table}")
    # The batch has records of one partition; the table lacks both.
    outcome = topic.apply(mirror, topic.batch([update(3, 2, "c")]), 1, {0: (2, 3), 1: (1, 1)})
    assert outcome.reread == 3
    assert topic.rows() == [(1, "a", "d"), (2, "c", "d")]
    topic.assert_ledger_is_whole()


def test_a_table_that_was_dropped_is_found_by_the_next_process_though_nothing_new_came(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    spark.sql(f"DROP TABLE lake.shop.{topic.table}")
    topic.apply(topic.mirror(), topic.everything().where("false"), 1, {0: (1, 1), 1: (1, 1)})
    assert topic.rows() == [(1, "a", "d"), (2, "b", "d")]
    topic.assert_ledger_is_whole()


def test_a_table_that_was_rolled_back_is_made_whole_from_its_topic(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    first = spark.table(f"lake.shop.{topic.table}.snapshots").first()["snapshot_id"]
    topic.apply(mirror, topic.batch([update(3, 1, "b"), delete(4, 2)]), 1)
    spark.sql(f"CALL lake.system.rollback_to_snapshot('shop.{topic.table}', {first})")
    topic.apply(mirror, topic.batch([create(5, 4, "d")]), 2, {0: (2, 3), 1: (2, 2)})
    assert topic.rows() == [(1, "b", "d"), (4, "d", "d")]
    topic.assert_ledger_is_whole()


@pytest.mark.parametrize("first", ["the create", "the delete"])
@pytest.mark.slow
def test_a_key_change_whose_halves_are_read_apart_keeps_its_values(spark: SparkSession, first: str) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a", "old"), create(2, 3, "b")]), 0)
    moved = topic.batch([create(4, 2, "a", GONE, old=1), update(6, 2, "A", GONE)])
    left = topic.batch([update(3, 1, "a", "new"), delete(4, 1, new=2), tombstone(1), update(5, 3, "B")])
    for number, batch in enumerate([moved, left] if first == "the create" else [left, moved], 1):
        topic.apply(mirror, batch, number)
    assert topic.rows() == [(2, "A", "new"), (3, "B", "d")]
    assert topic.letters.reasons == []
    topic.assert_ledger_is_whole()


def test_a_key_change_that_a_batch_ends_in_keeps_its_values(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a", "mine")]), 0)
    left = topic.batch([delete(2, 1, new=3), tombstone(1)])
    moved = topic.batch([create(2, 3, "a", GONE, old=1)])
    topic.apply(mirror, left, 1)
    topic.apply(mirror, moved, 2)
    assert topic.rows() == [(3, "a", "mine")]
    topic.assert_ledger_is_whole()


def test_a_half_is_found_behind_what_was_written_later_and_committed_earlier(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a", "one"), create(2, 3, "c", "three")]), 0)
    moved = topic.batch([create(30, 2, "a", GONE, old=1)])
    late = topic.batch([
        delete(40, 3, new=4), tombstone(3), delete(30, 1, new=2), tombstone(1), create(40, 4, "c", GONE, old=3),
    ])  # fmt: skip
    topic.apply(mirror, moved, 1)
    topic.apply(mirror, late, 2)
    assert topic.rows() == [(2, "a", "one"), (4, "c", "three")]
    topic.assert_ledger_is_whole()


def test_a_row_that_lost_a_value_never_takes_one_from_a_former_row_of_its_key(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a", "mine"), create(2, 2, "b", "another's")]), 0)
    topic.apply(mirror, topic.batch([delete(4, 1), tombstone(1)]), 1)
    lost = [delete(3, 2), tombstone(2), create(4, 2, "a", GONE, old=1), update(5, 2, "A", GONE)]
    topic.apply(mirror, topic.batch(lost), 2)
    assert topic.rows() == []
    assert topic.letters.reasons == ["unavailable_value"]
    topic.letters.closed |= topic.letters.kept.keys()
    topic.apply(mirror, topic.batch([update(6, 2, "A", "found")]), 3)
    assert topic.rows() == [(2, "A", "found")]
    topic.assert_ledger_is_whole()


def test_a_replay_that_reaches_further_takes_only_what_is_new(spark: SparkSession) -> None:
    topic = Topic(spark)
    first, second = (
        topic.batch([create(1, 2, "a"), create(2, 4, "b")]),
        topic.batch([update(3, 2, "c"), create(4, 3, "x")]),
    )
    topic.apply(topic.mirror(), first, 0)
    topic.apply(topic.mirror(), first.union(second), 0)
    assert topic.rows() == [(2, "c", "d"), (3, "x", "d"), (4, "b", "d")]
    summary = topic.summaries()[-1]
    assert json.loads(summary["lakehouse.offsets"]) == {"0": [2, 3], "1": [0, 1]}
    assert json.loads(summary["lakehouse.positions"]) == {"0": 3, "1": 1}


def test_a_new_column_is_added_and_older_rows_have_none(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.value_schema = value_schema(
        topic.table, {**COLUMNS, "age": ["null", "int"], "tags": {"type": "array", "items": "string"}}
    )
    topic.registry._schemas[VALUE_ID + 2] = topic.value_schema
    data = wire(VALUE_ID + 2, topic.value_schema, event("u", 3, {**row(1, "c", "d"), "age": 7, "tags": ["x"]}))
    topic.apply(mirror, topic.batch([(1, data, None)]), 1)
    found = spark.table(f"lake.shop.{topic.table}").orderBy("id").select("id", "name", "age", "tags").collect()
    assert [tuple(r) for r in found] == [(1, "c", 7, ["x"]), (2, "b", None, None)]


def test_a_change_of_type_stops_and_changes_nothing(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a")]), 0)
    wider = value_schema(topic.table, {**COLUMNS, "name": ["null", "long"], "fresh": ["null", "int"]})
    topic.registry._schemas[VALUE_ID + 2] = wider
    data = wire(VALUE_ID + 2, wider, event("u", 3, {"id": 1, "name": 5, "doc": "d", "fresh": 1}))
    with pytest.raises(StopPipeline, match="column name is string in the lake and long in the source"):
        topic.apply(mirror, topic.batch([(1, data, None)]), 1)
    assert topic.rows() == [(1, "a", "d")]
    assert "fresh" not in spark.table(f"lake.shop.{topic.table}").columns


def test_events_behind_a_broken_one_of_their_key_wait_and_come_back_in_order(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    bad = (2, b"broken", None)
    topic.apply(mirror, topic.batch([create(1, 2, "a"), create(2, 4, "b"), bad, update(3, 2, "c")]), 0)
    topic.apply(mirror, topic.batch([update(4, 2, "d"), update(5, 4, "B")]), 1)
    assert topic.rows() == [(2, "a", "d"), (4, "B", "d")]
    assert topic.letters.kept == {(0, 2): "not_avro", (0, 3): "parked", (0, 4): "parked"}
    replayed = [(*update(3, 2, "c"), 0, True), (*update(4, 2, "d"), 0, True)]
    topic.apply(mirror, topic.batch(replayed), 2)
    assert topic.rows() == [(2, "d", "d"), (4, "B", "d")]
    topic.letters.closed |= topic.letters.kept.keys()
    topic.apply(mirror, topic.batch([update(6, 2, "e"), (*update(3, 2, "c"), 0, True)]), 3)
    assert topic.rows() == [(2, "e", "d"), (4, "B", "d")]
    topic.assert_ledger_is_whole()


def test_an_event_of_another_table_is_a_dead_letter_though_its_schema_is_the_same(spark: SparkSession) -> None:
    topic = Topic(spark)
    foreign = event("c", 2, row(2, "b", "d"))
    foreign["source"] |= {"schema": "public", "table": "another"}
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a"), (2, foreign, None)]), 0)
    assert (topic.rows(), topic.letters.reasons) == ([(1, "a", "d")], ["foreign_table"])
    topic.assert_ledger_is_whole()


def test_a_replayed_read_of_a_snapshot_never_replaces_a_newer_row(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(5, 2, "newer")]), 0)
    topic.apply(mirror, topic.batch([(*read(3, 2, "older"), 0, True)]), 1)
    assert topic.rows() == [(2, "newer", "d")]


def test_a_table_whose_records_are_mostly_broken_stops_until_they_are_let_pass(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    broken = topic.batch([poison(b"broken")] * 150 + [create(lsn, lsn, "a") for lsn in range(1, 101)])
    with pytest.raises(StopPipeline, match=r"150 of 250 records of .* become dead letters \(150 not_avro\)"):
        topic.apply(mirror, broken, 0)
    assert topic.letters.kept == {}
    topic.let_pass = {0: 1000}
    topic.apply(mirror, broken, 1)
    assert len(topic.letters.kept) == 150
    assert len(topic.rows()) == 100
    topic.apply(mirror, topic.batch([poison(b"broken")] * 60 + [create(200, 200, "a")]), 2)
    assert topic.assert_ledger_is_whole().dead_lettered == 210, "a handful is no reason to stop"
