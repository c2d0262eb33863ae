"""Tables without a key, as multisets: labelled cases of what they hold after batches, and of what can't be matched."""

from collections import Counter
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.errors import RetryBatch
from pipelines.ledger.guard import MOVED
from pipelines.merge import keyless
from pipelines.merge.keyless import Group, unmatched
from pipelines.merge.statement import append_rows
from pipelines.mirror.table import commits
from tests.unit.pipelines.cases import Case, Found, alone, together
from tests.unit.pipelines.change_events import event, value_schema
from tests.unit.pipelines.harness import GONE, VALUE_ID, Line, Topic, change, insert, remove, row, truncate

A, B, C = (1, "a", "d"), (2, "b", "d"), (3, "c", None)
X, Y, Z = (4, "x", "d"), (5, "y", "d"), (6, "z", "d")
# They share a table, in which the ids of each are its own.
CASES = [
    Case("equal rows are as many as they are", [[insert(1, A), insert(2, A)], [insert(3, A), insert(4, B)]],
         [A, A, A, B]),
    Case("a delete takes one of several equal rows", [[insert(1, A), insert(1, A), insert(1, A)], [remove(2, A)]],
         [A, A]),
    Case("an update changes one of several equal rows",
         [[insert(1, A), insert(1, A), insert(2, C)], [change(3, A, B)]], [A, B, C]),
    Case("nulls are equal", [[insert(1, C), insert(2, (3, None, None))], [remove(3, C)]], [(3, None, None)]),
    Case("insert, updates and delete in one batch",
         [[insert(1, A), change(2, A, B), change(3, B, C), remove(4, C), insert(5, A)]], [A]),
    Case("there and back again", [[insert(1, A)], [change(2, A, B), change(3, B, A)]], [A]),
    Case("an update that changes nothing", [[insert(1, A), insert(2, A)], [change(3, A, A)]], [A, A]),
    Case("all of several equal rows are changed in one batch",
         [[insert(1, A)] * 3, [change(2, A, B), change(3, A, B), change(4, A, C)]], [B, B, C]),
    Case("removed and inserted again", [[insert(1, A)], [remove(2, A), insert(3, A), insert(4, A)]], [A, A]),
    Case("what a snapshot read is changed, whatever the log positions",
         [[insert(9, A, op="r"), insert(9, A, op="r")], [change(5, A, B)]], [A, B]),
    Case("an unchanged TOAST value is that of the old row",
         [[insert(1, (1, "a", "big"))], [change(2, (1, "a", "big"), (1, "b", GONE))]], [(1, "b", "big")]),
    Case("an unchanged TOAST value that the old row lacks too",
         [[insert(1, A)], [change(2, (1, "a", GONE), (1, "b", GONE))]], [A], ["unavailable_value"]),
    Case("no old row: the table's replica identity isn't FULL",
         [[insert(1, A)], [(None, event("u", 2, row(*B)), None, 0), (None, event("d", 3), None, 0)]],
         [A], ["no_key", "undecodable"]),
    Case("removed rows that are nowhere", [[insert(1, A)], [remove(2, B), change(3, C, B)]], [A],
         ["unknown_row", "unknown_row"]),
    Case("one more is removed than there are", [[insert(1, A)], [remove(2, A), remove(3, A), insert(4, B)]], [B],
         ["unknown_row"]),
    Case("what builds on a row that is nowhere goes with it, and nothing else",
         [[insert(1, A), insert(2, C)],
          [change(3, B, X), change(4, X, Y), change(5, A, Z), remove(6, Y), remove(7, C)]],
         [Z], ["unknown_row"] * 3),
    Case("of equal rows any will do, also for the removal of one that is nowhere",
         [[insert(1, A)], [change(2, B, X), change(3, X, Y), change(4, A, B), insert(5, X)]], [X, Y]),
]  # fmt: skip
TRUNCATES = [
    Case("truncate", [[insert(1, A), insert(2, A)], [truncate(3)]], []),
    Case("a truncate before anything else", [[truncate(2)], [insert(1, A), insert(3, B)]], [B]),
    Case("a removal finds the row from after a truncate, never the one from before",
         [[insert(1, A)], [truncate(2), insert(3, A), remove(4, A), insert(5, B)]], [B]),
    Case("changes from before a truncate are gone with it",
         [[insert(1, A), insert(2, B)], [change(3, A, C), remove(4, B), truncate(5), insert(6, C)]], [C]),
    Case("the first batch removes what isn't there", [[remove(1, A)], [insert(2, A)]], [A], ["unknown_row"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(spark: SparkSession) -> list[Found]:
    return together(Topic(spark, keyed=False), CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.label for case in CASES])
def test_table_after_batches(shared: list[Found], number: int) -> None:
    assert Counter(shared[number].rows) == Counter(CASES[number].rows)
    assert shared[number].dead == sorted(CASES[number].dead)


@pytest.mark.parametrize("case", TRUNCATES, ids=lambda case: case.label)
def test_table_of_its_own(spark: SparkSession, case: Case) -> None:
    found = alone(Topic(spark, keyed=False), case)
    assert Counter(found.rows) == Counter(case.rows)
    assert found.dead == sorted(case.dead)


def test_a_removal_waits_for_what_was_written_before_it_on_another_partition(spark: SparkSession) -> None:
    topic = Topic(spark, keyed=False)
    mirror = topic.mirror()
    everything = topic.batch([insert(1, A, 1), insert(2, A, 1), change(3, A, B, 0), truncate(4, 1), insert(5, B, 1)])
    late = topic.batch([insert(6, C, 1), remove(7, B, 0)])
    topic.apply(mirror, everything.where("partition = 0"), 0, {0: (0, 1), 1: (0, 0)})
    assert Counter(topic.rows()) == Counter([C])
    assert topic.letters.kept == {}
    # What the stream comes to only now is in the table.
    outcome = topic.apply(mirror, late.union(everything.where("partition = 1")), 1, {0: (1, 2), 1: (0, 5)})
    assert (outcome.skipped, outcome.reread) == (6, 0)
    assert Counter(topic.rows()) == Counter([C])
    topic.assert_ledger_is_whole()


def test_inserts_wait_for_nothing(spark: SparkSession) -> None:
    topic = Topic(spark, keyed=False)
    first, second = topic.batch([insert(1, A, 0)]), topic.batch([insert(2, B, 1), remove(3, A, 1)])
    mirror = topic.mirror()
    assert topic.apply(mirror, first, 0).reread == 0
    topic.apply(mirror, second, 1)
    assert topic.rows() == [B]


def test_values_are_equal_only_if_they_are_the_same(spark: SparkSession) -> None:
    topic = Topic(spark, keyed=False)
    doubles = {"type": "array", "items": ["null", "double"]}
    columns = {"id": "long", "name": ["null", "double"], "doc": ["null", doubles], "raw": ["null", "bytes"]}
    topic.value_schema = topic.registry._schemas[VALUE_ID] = value_schema(topic.table, columns)
    nan, nothing = float("nan"), None
    values: list[tuple[Any, ...]] = [
        (0.0, [0.0], b"\x00"), (-0.0, [0.0], b"\x00"), (-0.0, [-0.0], b"\x00"), (nan, [nan, nothing], b""),
        (nan, [nan], b""), (nothing, nothing, nothing), (nothing, [], b""), (nothing, [nothing], b""),
    ]  # fmt: skip

    def lines(op: str, lsn: int, chosen: list[tuple[Any, ...]]) -> Any:
        images = [{"id": 1, **dict(zip(("name", "doc", "raw"), value, strict=True))} for value in chosen]
        return topic.batch(
            [(None, event(op, lsn, *((image,) if op == "c" else (None, image))), None, 0) for image in images]
        )

    mirror = topic.mirror()
    topic.apply(mirror, lines("c", 1, values * 2), 0)
    topic.apply(mirror, lines("d", 2, [*values[::2], values[0]]), 1)
    found = spark.table(f"lake.shop.{topic.table}").select("name", "doc", "raw").collect()
    left = Counter(map(repr, [*values * 2])) - Counter(map(repr, [*values[::2], values[0]]))
    assert Counter(repr((r[0], r[1], r[2] if r[2] is None else bytes(r[2]))) for r in found) == left
    assert topic.letters.kept == {}


def test_rows_that_another_adds_right_before_the_commit_fail_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(spark, keyed=False)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([insert(1, A)]), 0)
    batch = topic.batch([insert(2, B)])

    def late(*given: Any, **settings: Any) -> None:
        spark.sql(f"INSERT INTO lake.shop.{topic.table} SELECT 3, 'c', null, 0, 9, 9, current_timestamp(), 'c'")
        append_rows(*given, **settings)

    with monkeypatch.context() as context:
        context.setattr(keyless, "append_rows", late)
        with pytest.raises(Py4JJavaError, match="Found conflicting files"):
            topic.apply(mirror, batch, 1)
    topic.apply(mirror, batch, 1)
    assert Counter(topic.rows()) == Counter([A, B, C])
    assert {snapshot.operation for snapshot in spark.table(f"lake.shop.{topic.table}.snapshots").collect()} == {
        "append"
    }


@pytest.mark.parametrize(
    ("events", "rows", "error"),
    [
        ([insert(2, B), insert(2, B)], [A, A, B, B], RetryBatch),
        ([remove(2, A), insert(3, B)], [A, B], RetryBatch),
        ([(None, event("u", 2, row(*B)), None, 0)] * 2, [A, A], Py4JJavaError),
    ],
    ids=["appended", "exchanged", "an entry of the ledger alone"],
)
def test_a_batch_that_another_mirror_has_committed_meanwhile_is_skipped(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, events: list[tuple[Any, ...]], rows: list[Line],
    error: type[Exception],
) -> None:  # fmt: skip
    topic = Topic(spark, keyed=False)
    mirror, other = topic.mirror(), topic.mirror()
    topic.apply(mirror, topic.batch([insert(1, A), insert(1, A)]), 0)
    batch = topic.batch(events)

    def overtaken(*given: Any, **settings: Any) -> Any:
        with monkeypatch.context() as context:
            context.setattr(commits, "decode_changes", decoded)
            topic.apply(other, batch, 1)
        return decoded(*given, **settings)

    decoded = commits.decode_changes
    with monkeypatch.context() as context:
        context.setattr(commits, "decode_changes", overtaken)
        with pytest.raises(error, match=MOVED):
            topic.apply(mirror, batch, 1)
    assert topic.apply(mirror, batch, 1).skipped == 2
    assert Counter(topic.rows()) == Counter(rows)
    topic.assert_ledger_is_whole()


GROUPS: list[tuple[str, list[Group], set[tuple[int, int]]]] = [
    ("enough", [Group(1, ((0, 1),), ((0, 2), (0, 3)))], set()),
    ("the newest of too many", [Group(1, (), ((0, 2), (0, 3)))], {(0, 3)}),
    ("what it would have added is missing too", [Group(0, (), ((0, 1),)), Group(0, ((0, 1),), ((0, 2),))],
     {(0, 1), (0, 2)}),
    ("unless there is another", [Group(0, (), ((0, 1),)), Group(1, ((0, 1),), ((0, 2),))], {(0, 1)}),
    ("a change to the same", [Group(0, ((0, 2),), ((0, 1), (0, 2)))], {(0, 1), (0, 2)}),
    ("a long chain", [Group(0, ((0, i - 1),) if i else (), ((0, i),)) for i in range(5000)],
     {(0, i) for i in range(5000)}),
]  # fmt: skip


@pytest.mark.parametrize(("label", "groups", "rejected"), GROUPS, ids=[label for label, _, _ in GROUPS])
def test_unmatched(label: str, groups: list[Group], rejected: set[tuple[int, int]]) -> None:
    assert unmatched(groups) == rejected
