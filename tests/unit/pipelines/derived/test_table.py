"""A derived table is what its query makes of its inputs, whatever happened to them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.checks.audit import AuditBranch
from pipelines.derived import write
from pipelines.derived.backfill import backfill
from pipelines.derived.inputs import origin_of
from pipelines.derived.outcome import DerivedOutcome
from pipelines.derived.table import DerivedTable
from pipelines.derived.trial import discard, try_out
from pipelines.errors import AwaitsInput, NotPublished, StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.lake.properties import LATE_ROWS, TABLE_PROPERTIES
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.derived import DerivedSpec
from quality.contract import Column, Contract

TOTALS = """SELECT c.name, count(o.id) AS orders, sum(o.amount) AS total
            FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.name"""
AFFECTS_ORDERS = "SELECT c.name FROM changed o JOIN customers c ON c.id = o.customer"


@dataclass
class House:
    """Two inputs, and what is made of them."""

    spark: SparkSession
    space: str
    session: SparkSession

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(
                statement.format(orders=f"lake.{self.space}.orders", customers=f"lake.{self.space}.customers")
            )

    def create(self, name: str, columns: str, partition: str = "") -> None:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in TABLE_PROPERTIES.items())
        self.spark.sql(
            f"CREATE TABLE lake.{self.space}.{name} ({columns}) USING iceberg {partition} TBLPROPERTIES ({properties})"
        )

    def spec(self, **other: Any) -> DerivedSpec:
        given = {
            "kind": "derived", "table": f"{self.space}.totals", "key": ["name"], "update": "incremental", "sql": TOTALS,
            "inputs": {
                "orders": {"table": f"{self.space}.orders", "affects": AFFECTS_ORDERS},
                "customers": {"table": f"{self.space}.customers", "affects": "SELECT name FROM changed"},
            },
        }  # fmt: skip
        return DerivedSpec.model_validate({**given, **other})

    def table(self, name: str = "totals") -> LakeTable:
        found = Lake(self.spark).table(self.space, name)
        assert found is not None
        return found

    def rows(self, name: str = "totals") -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.spark.sql(f"SELECT * FROM lake.{self.space}.{name}").collect()), key=repr)

    def anew(self, sql: str = TOTALS) -> list[tuple[Any, ...]]:
        session = self.spark.newSession()
        for name in ("orders", "customers"):
            session.table(f"lake.{self.space}.{name}").createOrReplaceTempView(name)
        return sorted(map(tuple, session.sql(sql).collect()), key=repr)

    def bring(self, derived: DerivedTable) -> DerivedOutcome:
        return derived.bring(self.session, 1)


@pytest.fixture
def house(spark: SparkSession, unique: Callable[[], str]) -> House:
    house = House(spark, unique(), spark.newSession())
    spark.sql(f"CREATE NAMESPACE lake.{house.space}")
    house.create("orders", "id bigint, customer bigint, amount decimal(12,2)")
    house.create("customers", "id bigint, name string")
    house.sql(
        "INSERT INTO {customers} VALUES (1, 'ann'), (2, 'bob'), (3, 'cyd')",
        "INSERT INTO {orders} VALUES (1, 1, 10), (2, 1, 5.5), (3, 2, 7), (4, NULL, 1)",
    )
    return house


def test_rows_of_affected_keys_alone_are_computed(house: House) -> None:
    derived = DerivedTable(house.spec())
    first = house.bring(derived)
    assert (first.how, first.inserted, first.changes[0]) == ("first", 3, "created")
    assert house.rows() == house.anew()
    house.sql("UPDATE {orders} SET amount = 20 WHERE id = 3")
    then = house.bring(derived)
    assert (then.how, then.keys, then.inserted, then.updated, then.deleted) == ("keys", 1, 0, 1, 0)
    assert house.rows() == house.anew()


def test_a_row_that_moves_changes_where_it_was_and_where_it_is(house: House) -> None:
    derived = DerivedTable(house.spec())
    house.bring(derived)
    house.sql("UPDATE {orders} SET customer = 3 WHERE id = 1", "UPDATE {customers} SET name = 'rob' WHERE id = 2",
              "DELETE FROM {orders} WHERE id = 2")  # fmt: skip
    outcome = house.bring(derived)
    assert outcome.how == "keys"
    assert (outcome.inserted, outcome.updated, outcome.deleted) == (1, 2, 1)
    assert house.rows() == house.anew()


def test_what_concerns_no_row_is_no_commit_and_a_restart_goes_on(house: House) -> None:
    derived = DerivedTable(house.spec())
    house.bring(derived)
    before = house.table().snapshot_id
    assert house.bring(derived).how == "nothing"
    house.sql("INSERT INTO {orders} VALUES (9, NULL, 3)")
    assert house.bring(derived).how == "nothing"
    assert house.table().snapshot_id == before
    house.sql("INSERT INTO {orders} VALUES (10, 2, 3)")
    again = DerivedTable(house.spec())
    assert house.bring(again).how == "keys"
    origin = origin_of(house.table())
    assert origin is not None
    assert origin.snapshots["orders"].snapshot == house.table("orders").snapshot_id
    assert house.rows() == house.anew()


def test_columns_that_the_query_does_not_read_affect_nothing(house: House) -> None:
    house.sql("ALTER TABLE {orders} ADD COLUMN note string")
    derived = DerivedTable(house.spec())
    house.bring(derived)
    house.sql("UPDATE {orders} SET note = 'x'", "INSERT INTO {orders} VALUES (30, 1, 1, 'y')")
    house.sql("UPDATE {orders} SET note = 'z', amount = amount + 1 WHERE id = 3")
    outcome = house.bring(derived)
    assert (outcome.how, outcome.keys, outcome.updated) == ("keys", 2, 2)
    assert house.rows() == house.anew()


def test_a_compaction_of_an_input_is_nothing(house: House) -> None:
    derived = DerivedTable(house.spec())
    house.sql("INSERT INTO {orders} VALUES (11, 2, 3)")
    house.bring(derived)
    house.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{house.space}.orders', options => map('rewrite-all', 'true'))"
    )
    assert house.bring(derived).how == "nothing"
    house.sql("DELETE FROM {orders} WHERE id = 11")
    assert (house.bring(derived).how, house.rows()) == ("keys", house.anew())


def test_what_cannot_be_told_is_computed_anew(house: House) -> None:
    derived = DerivedTable(house.spec())
    house.bring(derived)
    cases: list[tuple[str, Callable[[], None]]] = [
        ("can't be told from its snapshots", lambda: _expire(house)),
        ("the columns of", lambda: house.sql("ALTER TABLE {orders} ADD COLUMN note string")),
        ("is another table", lambda: _made_again(house)),
    ]
    for why, happens in cases:
        happens()
        outcome = house.bring(derived)
        assert outcome.how == "whole"
        assert why in (outcome.why or "")
        assert house.rows() == house.anew()
    # What is as it was isn't written again.
    assert outcome.inserted + outcome.updated + outcome.deleted == 2


def _expire(house: House) -> None:
    house.sql("INSERT INTO {orders} VALUES (20, 1, 1)", "INSERT INTO {orders} VALUES (21, 2, 1)")
    house.spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{house.space}.orders', older_than => timestamp_millis("
        f"{2_000_000_000_000}), retain_last => 1)"
    )


def _made_again(house: House) -> None:
    house.sql("DROP TABLE {customers}")
    house.create("customers", "id bigint, name string")
    house.sql("INSERT INTO {customers} VALUES (1, 'ann'), (2, 'robert'), (3, 'cyd')")


def test_another_query_gives_another_table_in_one_commit(house: House) -> None:
    house.bring(DerivedTable(house.spec()))
    before = house.table().snapshot_count
    sql = TOTALS.replace("count(o.id) AS orders", "max(o.amount) AS largest")
    outcome = house.bring(DerivedTable(house.spec(sql=sql)))
    assert (outcome.how, outcome.why, outcome.commits) == ("whole", "its definition has changed", 1)
    assert house.table().snapshot_count == before + 1
    names = ["name", "largest", "total"]
    session = house.spark.newSession()
    assert sorted(session.table(f"lake.{house.space}.totals").columns) == sorted(names)
    found = session.sql(f"SELECT {', '.join(names)} FROM lake.{house.space}.totals").collect()
    assert sorted(map(tuple, found), key=repr) == house.anew(sql)


def test_a_column_of_another_type_is_refused_and_said(house: House) -> None:
    house.bring(DerivedTable(house.spec()))
    spec = house.spec(sql=TOTALS.replace("count(o.id)", "max(c.name)"))
    with pytest.raises(StopPipeline, match=r"type can't become what the query gives now.*another name in sql"):
        house.bring(DerivedTable(spec))
    assert house.rows() == house.anew()


WRONG = [
    ("SELECT name, id FROM customers UNION ALL SELECT name, id + 1 FROM customers", "gives 2 rows for name='ann'"),
    ("SELECT nam FROM customers", "can't be run.*nam"),
    ("SELEC 1", "can't be run"),
    ("SELECT id FROM customers", "name is in the key, and the query doesn't give it"),
    ("SELECT name, id, id FROM customers", "id comes out of the query more than once"),
    ("SELECT name, map(1, id) AS m FROM customers", "m is a map"),
]


@pytest.mark.parametrize(("sql", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_with_a_query_is_said(house: House, sql: str, message: str) -> None:
    with pytest.raises(StopPipeline, match=message):
        house.bring(DerivedTable(house.spec(sql=sql)))


def test_an_input_to_come_is_awaited(house: House) -> None:
    inputs = {"orders": {"table": f"{house.space}.later", "affects": "SELECT name FROM changed"}}
    with pytest.raises(AwaitsInput, match=r"has no .*later yet"):
        house.bring(DerivedTable(house.spec(inputs=inputs)))


def test_many_rows_are_written_by_spark(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "MOST_ROWS", 1)
    derived = DerivedTable(house.spec())
    assert house.bring(derived).inserted == 3
    assert house.rows() == house.anew()
    house.sql("UPDATE {orders} SET amount = amount + 1", "DELETE FROM {customers} WHERE id = 3",
              "INSERT INTO {customers} VALUES (4, 'dee')")  # fmt: skip
    outcome = house.bring(derived)
    assert (outcome.inserted, outcome.updated, outcome.deleted) == (1, 2, 1)
    assert house.rows() == house.anew()


def test_a_partitioned_table_loses_rows_where_they_were(house: House) -> None:
    derived = DerivedTable(house.spec(layout={"partition": ["truncate(1, name)"]}))
    house.bring(derived)
    house.sql("UPDATE {customers} SET name = 'zoe' WHERE id = 1")
    house.bring(derived)
    assert house.table().partitioned
    assert house.rows() == house.anew()


def test_random_histories(house: House) -> None:
    random_ = random.Random(7)
    derived = DerivedTable(house.spec())
    for step in range(12):
        for _ in range(random_.randint(1, 3)):
            one, other = random_.randint(1, 12), random_.randint(1, 5)
            house.sql(random_.choice([
                f"INSERT INTO {{orders}} VALUES ({100 + step}, {other}, {one})",
                f"UPDATE {{orders}} SET customer = {other} WHERE id % 5 = {one % 5}",
                f"DELETE FROM {{orders}} WHERE id % 7 = {one % 7}",
                f"UPDATE {{customers}} SET name = 'n{one}{step}' WHERE id = {other}",
                f"INSERT INTO {{customers}} VALUES ({10 + step}, 'new{step}')",
            ]))  # fmt: skip
        if random_.random() < 0.3:
            derived = DerivedTable(house.spec())
        house.bring(derived)
        assert house.rows() == house.anew(), f"after step {step}"


READINGS = "sensor string, value int, at timestamp, _ingested_at timestamp"
BY_MINUTE = """SELECT sensor, date_trunc('minute', at) AS minute, count(*) AS n, sum(value) AS total FROM readings
               GROUP BY sensor, date_trunc('minute', at)"""


def windowed(house: House, emit: str) -> DerivedSpec:
    affects = "SELECT DISTINCT sensor, date_trunc('minute', at) AS minute FROM changed"
    return DerivedSpec.model_validate(
        {
            "kind": "derived", "table": f"{house.space}.minutes", "key": ["sensor", "minute"], "update": "windowed",
            "inputs": {"readings": {"table": f"{house.space}.readings", "affects": affects}}, "sql": BY_MINUTE,
            "window": {"input": "readings", "time": "at", "start": "minute", "every": "1 minute",
                       "lateness": "5 minutes", "emit": emit},
        }
    )  # fmt: skip


def read(house: House, *rows: tuple[str, int, str, str]) -> None:
    values = ", ".join(
        f"('{sensor}', {value}, TIMESTAMP '2026-03-01 {at}', TIMESTAMP '2026-03-01 {came}')"
        for sensor, value, at, came in rows
    )
    house.spark.sql(f"INSERT INTO lake.{house.space}.readings VALUES {values}")


def minutes(house: House) -> list[tuple[str, str, int, int]]:
    return [(sensor, f"{minute:%H:%M}", n, total) for sensor, minute, n, total in house.rows("minutes")]


def test_windows_change_until_their_lateness_is_over(house: House) -> None:
    house.create("readings", READINGS, "PARTITIONED BY (days(at))")
    derived = DerivedTable(windowed(house, "changes"))
    read(house, ("a", 1, "10:00:10", "10:00:11"), ("a", 2, "10:00:50", "10:00:51"), ("b", 5, "10:01:00", "10:01:01"))
    house.bring(derived)
    assert minutes(house) == [("a", "10:00", 2, 3), ("b", "10:01", 1, 5)]
    # The first is late and in time, the second comes after its window has closed.
    read(house, ("a", 4, "10:00:59.5", "10:05:59"), ("b", 8, "10:01:30", "10:07:00.1"))
    outcome = house.bring(derived)
    assert (outcome.late, outcome.updated, outcome.inserted) == (1, 1, 0)
    assert minutes(house) == [("a", "10:00", 3, 7), ("b", "10:01", 1, 5)]
    assert house.table("minutes").summary[LATE_ROWS] == "1"
    house.spark.sql(f"DROP TABLE lake.{house.space}.minutes")
    house.bring(DerivedTable(windowed(house, "changes")))
    assert minutes(house) == [("a", "10:00", 3, 7), ("b", "10:01", 1, 5)]


def test_windows_are_written_once_they_are_final(house: House) -> None:
    house.create("readings", READINGS, "PARTITIONED BY (days(at))")
    derived = DerivedTable(windowed(house, "final"))
    read(house, ("a", 1, "10:00:10", "10:00:11"), ("a", 2, "10:02:00", "10:02:01"))
    house.bring(derived)
    assert minutes(house) == []
    read(house, ("b", 9, "10:06:00", "10:06:00"), ("a", 4, "10:00:20", "10:05:59"))
    house.bring(derived)
    assert minutes(house) == [("a", "10:00", 2, 5)]
    read(house, ("b", 1, "10:30:00", "10:30:00"))
    outcome = house.bring(derived)
    assert (outcome.how, outcome.inserted, outcome.updated) == ("keys", 2, 0)
    assert minutes(house) == [("a", "10:00", 2, 5), ("a", "10:02", 1, 2), ("b", "10:06", 1, 9)]


def test_a_range_is_filled_piece_by_piece_and_what_is_right_stays(house: House) -> None:
    house.create("readings", READINGS, "PARTITIONED BY (days(at))")
    spec = windowed(house, "changes")
    read(house, *(("a", n, f"10:0{n}:00", f"10:0{n}:01") for n in range(6)))
    house.bring(DerivedTable(spec))
    right = minutes(house)
    minute = f"lake.{house.space}.minutes"
    house.spark.sql(f"UPDATE {minute} SET total = 99 WHERE total IN (1, 4)")
    house.spark.sql(f"DELETE FROM {minute} WHERE total = 5")
    at = "2026-03-01T10:0{}:00+00:00"
    pieces = list(backfill(house.session, spec, ProtectedColumns(), every=120, start=at.format(0), end=at.format(4)))
    assert [(piece.by, piece.written.updated) for piece in pieces] == [("minute", 1), ("minute", 0)]
    assert [total for *_, total in minutes(house)] == [0, 1, 2, 3, 99]
    pieces = list(backfill(house.session, spec, ProtectedColumns(), every=3600))
    assert [(piece.written.inserted, piece.written.updated) for piece in pieces] == [(1, 1)]
    assert minutes(house) == right
    # Whoever keeps the table goes on from where it was.
    read(house, ("a", 7, "10:05:30", "10:05:31"))
    outcome = house.bring(DerivedTable(spec))
    assert (outcome.how, outcome.keys) == ("keys", 1)
    with pytest.raises(StopPipeline, match="by sensor: of its key these can: minute"):
        list(backfill(house.session, spec, ProtectedColumns(), by="sensor"))


def test_nobody_sees_what_breaks_a_blocking_contract(house: House) -> None:
    total = Column("total", options={"minimum": 0})
    contract = Contract((house.space, "totals"), "1", "active", (Column("name", key=1), total), blocking=True)
    derived = DerivedTable(house.spec(), contract, None, None, AuditBranch(house.spark, contract, lambda: None))
    house.bring(derived)
    seen = house.rows()
    assert seen == house.anew()
    house.sql("INSERT INTO {orders} VALUES (20, 2, -100)")
    with pytest.raises(NotPublished, match=r"totals isn't published, .*: total.minimum \(1 rows\)"):
        house.bring(derived)
    assert (house.rows(), house.table().branches) == (seen, {"main"})
    house.sql("UPDATE {orders} SET amount = 100 WHERE id = 20")
    assert house.bring(derived).updated == 1
    assert house.rows() == house.anew()
    assert house.table().branches == {"main"}


def test_another_definition_is_tried_beside_what_readers_see(house: House) -> None:
    derived = DerivedTable(house.spec())
    house.bring(derived)
    seen = house.rows()
    # What comes meanwhile isn't the definition's doing.
    house.sql("INSERT INTO {orders} VALUES (40, 1, 1000)")
    another = TOTALS.replace("sum(o.amount) AS total", "sum(o.amount * 2) AS total, max(o.id) AS last")
    another += " HAVING c.name <> 'cyd'"
    spec = house.spec(sql=another)
    trial = try_out(house.spark, spec, ProtectedColumns(None, None), "twice", 5)
    assert (trial.rows, trial.missing, trial.extra, trial.differing) == (2, 0, 1, 2)
    assert trial.columns == {"orders": 0, "total": 2}
    assert (trial.added, trial.dropped) == (("last",), ())
    assert {"kind": "extra", "key": {"name": "cyd"}} in trial.examples
    assert {"kind": "differs", "key": {"name": "bob"},
            "values": {"total": {"now": "7.00", "tried": "14.00"}}} in trial.examples  # fmt: skip
    assert house.rows() == sorted(((*row, None) for row in seen), key=repr)
    tried = house.spark.sql(f"SELECT * FROM lake.{house.space}.totals VERSION AS OF 'twice'").collect()
    assert sorted((row["name"], int(row["total"]), row["last"]) for row in tried) == [("ann", 31, 2), ("bob", 14, 3)]
    # The table goes on beside it, and loses the column that its own query doesn't give.
    assert house.bring(derived).updated == 1
    plain = ProtectedColumns(None, None)
    assert discard(house.spark, house.spec(), plain, "twice")
    assert house.rows() == house.anew()
    assert not discard(house.spark, house.spec(), plain, "twice")
    with pytest.raises(StopPipeline, match="main is what readers"):
        try_out(house.spark, spec, ProtectedColumns(None, None), "main", 5)


def test_a_definition_with_another_key_is_another_table(house: House) -> None:
    house.bring(DerivedTable(house.spec()))
    spec = house.spec(key=["id"], sql="SELECT id, name FROM customers")
    with pytest.raises(StopPipeline, match="has no column id, which would be in its key"):
        try_out(house.spark, spec, ProtectedColumns(None, None), "other", 5)
