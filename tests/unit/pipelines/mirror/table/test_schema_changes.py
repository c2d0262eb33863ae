"""Tables that follow the source's schema: batches whose rows were written under several schemas, and their log."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.schema.versions import Attribute
from pipelines.sources.postgres.schema_log import attribute
from quality.contract import Contract
from tests.unit.pipelines.change_events import event, key_schema, value_schema, wire
from tests.unit.pipelines.harness import GONE, Topic

AVRO: dict[str, Any] = {
    "int8": "long", "int4": "int", "text": "string", "float4": "float",
    "date": {"type": "int", "connect.name": "io.debezium.time.Date"},
}  # fmt: skip


def column(number: int, name: str, kind: str, missing: str | None = None) -> Attribute:
    return attribute(number, name, kind, -1, kind, missing)


ID, NAME, DOC = column(1, "id", "int8"), column(2, "name", "text"), column(3, "doc", "text")


class Source:
    """A source table whose schema changes, its topic and its mirror."""

    def __init__(
        self, spark: SparkSession, *columns: Attribute, logged: bool = True, keys: tuple[int, ...] = (1,),
        contract: Contract | None = None, by_rows: bool = False,
    ) -> None:  # fmt: skip
        self.topic, self.spark, self.logged = Topic(spark), spark, logged
        self.mirror = self.topic.mirror(contract=contract)
        self.lsn, self.batches = 0, 0
        self.columns: tuple[Attribute, ...] = ()
        self.ids: dict[str, int] = {}
        self.alter(*columns, keys=keys, by_rows=by_rows)

    def alter(
        self, *columns: Attribute, relation: int = 1, reread: bool = False, keys: tuple[int, ...] = (1,),
        by_rows: bool = False,
    ) -> None:  # fmt: skip
        """``by_rows``: events have keys, which don't tell rows apart."""
        self.lsn += 1
        if self.logged:
            self.topic.schema_log.add(self.lsn, *columns, relation=relation, reread=reread, keys=keys, by_rows=by_rows)
        self.columns, self.keys = columns, [c for c in columns if c.number in keys]

    def write(
        self, op: str, *values: Any, partition: int | None = None, old: tuple[Any, ...] | None = None
    ) -> tuple[Any, ...]:
        """An event under the schema of now; a delete is given the values of the key's columns and null elsewhere, or
        without a key all. ``old``: the row before an update.
        """
        self.lsn += 1
        row, before = (
            image and dict(zip((c.name for c in self.columns), image, strict=True)) for image in (values, old)
        )
        assert row
        kinds = {c.name: AVRO[c.type] if c in self.keys else ["null", AVRO[c.type]] for c in self.columns}
        identifier, schema = self._register(value_schema(self.topic.table, kinds))
        value = wire(identifier, schema, event(op, self.lsn, *((None, row) if op == "d" else (row, before))))
        key = None
        if self.keys:
            key_id, written = self._register(key_schema(self.topic.table, {c.name: AVRO[c.type] for c in self.keys}))
            key = wire(key_id, written, {c.name: row[c.name] for c in self.keys})
        place = sum(map(ord, str([row[c.name] for c in self.keys]))) % 2 if partition is None else partition
        return (key, value, None, place)

    def _register(self, schema: str) -> tuple[int, str]:
        identifier = self.ids.setdefault(schema, 20 + len(self.ids))
        self.topic.registry._schemas[identifier] = schema
        return identifier, schema

    def mirrored(self, *events: tuple[Any, ...], schema_changed: bool = False) -> None:
        """A batch of these events."""
        batch = self.topic.batch(list(events)) if events else self.topic.everything().where("false")
        self.topic.apply(self.mirror, batch, self.batches, schema_changed=schema_changed)
        self.batches += 1

    def rows(self, *names: str) -> list[tuple[Any, ...]]:
        """The lake's rows, by key; its columns must be ``names``, in any order."""
        table = self.spark.table(f"lake.shop.{self.topic.table}")
        assert {c for c in table.columns if not c.startswith("_")} == set(names)
        return [tuple(row) for row in table.select(*names).orderBy("id", *names).collect()]

    def history(self) -> list[str]:
        table = Lake(self.spark).table("shop", self.topic.table)
        assert table is not None
        return [
            change for entry in json.loads(table.properties["lakehouse.schema-history"]) for change in entry["changes"]
        ]


def test_rows_without_a_key_are_found_by_their_values_under_any_schema(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC, keys=())
    source.mirrored(
        *[source.write("c", 1, "a", "one", partition=i % 2) for i in range(3)], source.write("c", 2, "b", "two")
    )
    older = source.write("u", 3, "c", "three", old=(1, "a", "one"))
    source.alter(ID, column(2, "title", "text"), column(4, "age", "int4", missing="7"), keys=())
    newer = source.write("u", 2, "b", 8, old=(2, "b", 7))
    source.mirrored(older, newer, source.write("d", 1, "a", 7, partition=1), schema_changed=True)
    assert source.rows("id", "title", "age") == [(1, "a", 7), (2, "b", 8), (3, "c", 7)]
    assert source.topic.letters.kept == {}
    source.topic.assert_ledger_is_whole()


def test_a_renamed_column_keeps_its_values_whatever_the_batch_holds(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirrored(source.write("c", 1, "a", "one"), source.write("c", 2, "b", "two"))
    older = source.write("u", 1, "A", GONE)
    source.alter(ID, column(2, "title", "text"), DOC)
    source.mirrored(older, source.write("u", 2, "B", GONE), source.write("c", 3, "c", "three"))
    assert source.rows("id", "title", "doc") == [(1, "A", "one"), (2, "B", "two"), (3, "c", "three")]
    assert source.history() == ["rename name to title"]
    source.topic.assert_ledger_is_whole()


def test_older_rows_show_the_default_of_an_added_column_and_so_do_events_from_before_it(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"), source.write("c", 2, "b"))
    late = source.write("c", 4, "late")
    source.alter(ID, NAME, column(3, "age", "int4", "7"), column(4, "note", "text", "it's"), column(5, "plain", "int4"))
    source.mirrored(source.write("u", 2, "B", 9, None, 1))
    assert source.rows("id", "name", "age", "note", "plain") == [(1, "a", 7, "it's", None), (2, "B", 9, None, 1)]
    source.mirrored(late)
    assert source.rows("id", "name", "age", "note", "plain")[-1] == (4, "late", 7, "it's", None)
    assert source.history() == ["add age int default 7", "add note string default it's", "add plain int"]


def test_a_dropped_column_goes(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirrored(source.write("c", 1, "a", "one"))
    late = source.write("c", 3, "late", "three")
    source.alter(ID, DOC)
    source.mirrored(source.write("c", 2, "two"))
    source.mirrored(late)
    assert source.rows("id", "doc") == [(1, "one"), (2, "two"), (3, "three")]


def test_a_column_dropped_and_added_again_is_another_one(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"), source.write("c", 2, "b"))
    source.alter(ID, column(3, "name", "int4"))
    source.mirrored(source.write("u", 2, 5))
    assert source.rows("id", "name") == [(1, None), (2, 5)]
    source.alter(ID, column(4, "name", "int4"))
    # The same schema as before, by its text: only the log position tells that it is another column.
    source.mirrored(source.write("c", 3, 6))
    assert source.rows("id", "name") == [(1, None), (2, None), (3, 6)]


def test_names_that_change_places(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    first = [source.write("c", 1, "a", "one"), source.write("c", 2, "b", "two")]
    source.mirrored(first[0])
    source.alter(ID, column(2, "doc", "text"), column(3, "name", "text"))
    source.mirrored(first[1], source.write("c", 3, "c", "three"))
    assert source.rows("id", "name", "doc") == [(1, "one", "a"), (2, "two", "b"), (3, "three", "c")]


def test_a_wider_type(spark: SparkSession) -> None:
    source = Source(spark, ID, column(2, "count", "int4"), column(3, "share", "float4"))
    source.mirrored(source.write("c", 1, 7, 0.5))
    late = source.write("c", 2, 8, 0.25)
    source.alter(ID, column(2, "count", "int8"), column(3, "share", "float4"))
    source.mirrored(source.write("u", 1, 2**40, 0.5))
    source.mirrored(late)
    assert source.rows("id", "count", "share") == [(1, 2**40, 0.5), (2, 8, 0.25)]
    assert source.history() == ["widen count to long"]


def test_a_changed_type_whose_older_values_are_read_again(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "11"), source.write("c", 2, "12"))
    source.alter(ID, column(2, "name", "int4"), reread=True)
    source.mirrored(source.write("c", 3, 13))
    source.mirrored(source.write("r", 1, 11), source.write("r", 2, 12), source.write("r", 3, 13))
    assert source.rows("id", "name") == [(1, 11), (2, 12), (3, 13)]


def test_a_changed_type_that_nobody_reads_again_stops(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "11"))
    source.alter(ID, column(2, "name", "int4"))
    with pytest.raises(StopPipeline, match="column name is string in the lake and int in the source"):
        source.mirrored(source.write("c", 3, 13))
    assert source.rows("id", "name") == [(1, "11")]


def test_a_table_follows_a_change_that_no_row_came_after(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, DOC)
    source.mirrored(source.write("c", 1, "a", "one"))
    source.alter(ID, column(2, "title", "text"), column(4, "age", "int4", "7"))
    source.mirrored(schema_changed=True)
    assert source.rows("id", "title", "age") == [(1, "a", 7)]
    source.topic.assert_ledger_is_whole()


def test_a_table_that_took_anothers_name_has_none_of_its_rows(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"), source.write("c", 2, "b"))
    late = source.write("c", 4, "late")
    source.alter()
    source.alter(ID, DOC, relation=2)
    source.mirrored(schema_changed=True)
    assert source.rows("id", "doc") == []
    source.mirrored(late, source.write("c", 5, "new"))
    assert source.rows("id", "doc") == [(5, "new")]
    source.topic.assert_ledger_is_whole()


def test_a_renamed_key_stays_the_key(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"))
    source.alter(column(1, "number", "int8"), NAME)
    source.mirrored(schema_changed=True)
    table = Lake(spark).table("shop", source.topic.table)
    assert table is not None
    assert json.loads(table.properties["lakehouse.key-columns"]) == ["number"]


def test_without_a_log_only_columns_without_a_default_can_be_added(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME, logged=False)
    source.mirrored(source.write("c", 1, "a"))
    source.alter(ID, NAME, DOC)
    source.mirrored(source.write("c", 2, "b", "two"))
    assert source.rows("id", "name", "doc") == [(1, "a", None), (2, "b", "two")]


def test_what_was_added_by_name_makes_room_for_what_the_log_says_later(spark: SparkSession) -> None:
    source = Source(spark, ID, NAME)
    source.mirrored(source.write("c", 1, "a"))
    source.logged = False
    source.alter(ID, column(2, "title", "text"))
    source.mirrored(source.write("c", 2, "b"))
    assert source.rows("id", "name", "title") == [(1, "a", None), (2, None, "b")]
    source.logged = True
    source.alter(ID, column(2, "title", "text"), DOC)
    source.mirrored(source.write("u", 2, "B", "two"))
    assert source.rows("id", "title", "doc") == [(1, "a", None), (2, "B", "two")]
