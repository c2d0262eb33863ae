"""What a table holds after batches of events: cases as labelled data, through decode, admit, fold and merge."""

import itertools
import json
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StopPipeline, UnknownSchema
from pipelines.profile import profile
from pipelines.table import TableMirror
from tests.unit.pipelines.events import PLACEHOLDER, event, key_schema, value_schema, wire

COLUMNS = {"id": "long", "name": ["null", "string"], "doc": ["null", "string"]}
VALUE_ID, KEY_ID = 7, 8
GONE = PLACEHOLDER


@dataclass
class Letters:
    """Stands where the dead-letter topic and table are; integration tests use the real ones."""

    kept: list[tuple[int, int, str]] = field(default_factory=list)

    def write(self, letters: DataFrame, topic: str, batch: int, ranges: Any) -> None:
        self.kept += [(row.partition, row.offset, row.reason) for row in letters.collect()]


class Registry:
    def __init__(self, schemas: dict[int, str]) -> None:
        self._schemas = schemas

    def schema(self, schema_id: int) -> str:
        if schema_id not in self._schemas:
            raise UnknownSchema(str(schema_id))
        return self._schemas[schema_id]


def row(key: int, name: str | None = None, doc: str | None = None) -> dict[str, Any]:
    return {"id": key, "name": name, "doc": doc}


def create(lsn: int, key: int, name: str, doc: str = "d", old: int | None = None) -> tuple[Any, ...]:
    return (key, event("c", lsn, row(key, name, doc)), old)


def update(lsn: int, key: int, name: str, doc: str = "d") -> tuple[Any, ...]:
    return (key, event("u", lsn, row(key, name, doc)), None)


def delete(lsn: int, key: int) -> tuple[Any, ...]:
    return (key, event("d", lsn, None, row(key)), None)


def tombstone(key: int) -> tuple[Any, ...]:
    return (key, None, None)


def truncate(lsn: int, partition: int = 0) -> tuple[Any, ...]:
    return (None, event("t", lsn), None, partition)


def poison(data: bytes, partition: int = 0) -> tuple[Any, ...]:
    return (None, data, None, partition)


@dataclass(frozen=True)
class Case:
    label: str
    batches: list[list[tuple[Any, ...]]]
    rows: list[tuple[Any, ...]]
    dead: list[str] = field(default_factory=list)


CASES = [
    Case("inserts", [[create(1, 1, "a"), create(2, 2, "b")]], [(1, "a", "d"), (2, "b", "d")]),
    Case("update in a later batch", [[create(1, 1, "a")], [update(2, 1, "b")]], [(1, "b", "d")]),
    Case("update in the same batch", [[create(1, 1, "a"), update(2, 1, "b")]], [(1, "b", "d")]),
    Case("delete in a later batch", [[create(1, 1, "a")], [delete(2, 1), tombstone(1)]], []),
    Case("insert, update and delete in one batch", [[create(1, 1, "a"), update(2, 1, "b"), delete(3, 1)]], []),
    Case("delete, then insert again in one batch",
          [[create(1, 1, "a")], [delete(2, 1), tombstone(1), create(3, 1, "z")]], [(1, "z", "d")]),
    Case("delete of an unknown key", [[create(1, 1, "a")], [delete(2, 9)]], [(1, "a", "d")]),
    Case("first batch holds only a delete", [[delete(1, 1)], [create(2, 2, "b")]], [(2, "b", "d")]),
    Case("key change", [[create(1, 1, "a")], [delete(2, 1), tombstone(1), create(2, 5, "a", old=1)]], [(5, "a", "d")]),
    Case("an older event after a newer one is ignored",
          [[create(9, 1, "new")], [update(3, 1, "old")]], [(1, "new", "d")]),
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
    Case("truncate", [[create(1, 1, "a")], [truncate(2)]], []),
    Case("truncate between inserts of one batch",
          [[create(1, 1, "a"), truncate(2), create(3, 2, "b")]], [(2, "b", "d")]),
    Case("truncate, then the same key again",
          [[create(1, 1, "a", "big")], [truncate(2), create(3, 1, "b", "new")]], [(1, "b", "new")]),
    Case("truncate read before an older insert of another partition",
          [[create(1, 1, "a"), truncate(5)], [create(3, 2, "older"), create(7, 3, "newer")]], [(3, "newer", "d")]),
    Case("truncate read after a newer insert of another partition",
          [[create(1, 1, "a"), create(7, 2, "newer")], [truncate(5)]], [(2, "newer", "d")]),
    Case("not Avro at all", [[create(1, 1, "a"), poison(b"not avro")]], [(1, "a", "d")], ["not_avro"]),
    Case("unknown schema id", [[create(1, 1, "a"), poison(b"\x00\x00\x00\x03\xe7rest")]], [(1, "a", "d")],
         ["unknown_schema"]),
    Case("truncated Avro",
          [[create(1, 1, "a"), poison(b"\x00\x00\x00\x00\x07\x02")]], [(1, "a", "d")], ["undecodable"]),
    Case("only broken records, each for a reason of its own",
         [[poison(b"x"), poison(b"\x00\x00\x00\x03\xe7rest")], [create(1, 1, "a")]], [(1, "a", "d")],
         ["not_avro", "unknown_schema"]),
    Case("only broken records", [[poison(b"x"), poison(b"")], [create(1, 1, "a")]], [(1, "a", "d")],
         ["not_avro", "not_avro"]),
]  # fmt: skip

_topics = itertools.count()


class Topic:
    """A topic of its own for each case: gives offsets by partition, and batches as Spark's Kafka source would."""

    def __init__(self, spark: SparkSession, keyed: bool = True) -> None:
        self.spark, self.keyed = spark, keyed
        self.table = f"t{next(_topics)}"
        self.name = f"shop.public.{self.table}"
        self.value_schema, self.key_schema = value_schema(self.table, COLUMNS), key_schema(self.table, {"id": "long"})
        self.registry = Registry({VALUE_ID: self.value_schema, KEY_ID: self.key_schema})
        self.letters = Letters()
        self.offsets = [0, 0]

    def mirror(self) -> TableMirror:
        return TableMirror(self.name, "shop", "mirror", self.registry, self.letters, PLACEHOLDER)  # type: ignore[arg-type]

    def batch(self, events: list[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame([self._record(*e) for e in events], RECORD).persist()

    def _record(self, key: Any, value: Any, old: Any = None, partition: int | None = None) -> tuple[Any, ...]:
        partition = (key or 0) % 2 if partition is None else partition
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        key_bytes = wire(KEY_ID, self.key_schema, {"id": key}) if self.keyed and key is not None else None
        data = value if value is None or isinstance(value, bytes) else wire(VALUE_ID, self.value_schema, value)
        headers = None if old is None else [("__debezium.oldkey", json.dumps({"id": old}).encode())]
        return (key_bytes, data, self.name, partition, offset, headers)

    def apply(self, mirror: TableMirror, batch: DataFrame, number: int) -> Any:
        seen = profile(batch)[self.name]
        return mirror.mirror(batch, seen, number, self.spark.newSession())

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.spark.table(f"lake.shop.{self.table}").select(*COLUMNS).orderBy("id").collect()
        return [tuple(r) for r in found]


RECORD = (
    "key binary, value binary, topic string, partition int, offset long, headers array<struct<key:string,value:binary>>"
)


@pytest.fixture(autouse=True)
def _timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Topic.batch
    monkeypatch.setattr(Topic, "batch", lambda s, e: original(s, e).withColumn("timestamp", F.current_timestamp()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_table_after_batches_and_after_a_replay_of_everything(spark: SparkSession, case: Case) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    batches = [topic.batch(events) for events in case.batches]
    for number, batch in enumerate(batches):
        topic.apply(mirror, batch, number)
    assert topic.rows() == case.rows
    assert sorted(reason for _, _, reason in topic.letters.kept) == sorted(case.dead)
    if case.dead:
        return
    snapshots = spark.table(f"lake.shop.{topic.table}.snapshots").count()
    everything = reduce(DataFrame.union, batches)
    outcome = topic.apply(topic.mirror(), everything, len(batches))
    assert outcome.skipped == everything.count()
    assert topic.rows() == case.rows
    assert spark.table(f"lake.shop.{topic.table}.snapshots").count() == snapshots


def test_a_replay_that_reaches_further_takes_only_what_is_new(spark: SparkSession) -> None:
    topic = Topic(spark)
    first, second = (
        topic.batch([create(1, 2, "a"), create(2, 4, "b")]),
        topic.batch([update(3, 2, "c"), create(4, 3, "x")]),
    )
    topic.apply(topic.mirror(), first, 0)
    topic.apply(topic.mirror(), first.union(second), 0)
    assert topic.rows() == [(2, "c", "d"), (3, "x", "d"), (4, "b", "d")]
    summary = spark.table(f"lake.shop.{topic.table}.snapshots").orderBy(F.desc("committed_at")).first()["summary"]
    assert json.loads(summary["lakehouse.offsets"]) == {"0": [2, 3], "1": [0, 1]}
    assert json.loads(summary["lakehouse.positions"]) == {"0": 3, "1": 1}


def test_a_table_without_a_key_is_appended_to(spark: SparkSession) -> None:
    topic = Topic(spark, keyed=False)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 1, "a")]), 0)
    topic.apply(mirror, topic.batch([create(3, 1, "a"), update(4, 1, "b"), delete(5, 1)]), 1)
    assert topic.rows() == [(1, "a", "d")] * 3
    assert [reason for _, _, reason in topic.letters.kept] == ["no_key", "no_key"]


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
