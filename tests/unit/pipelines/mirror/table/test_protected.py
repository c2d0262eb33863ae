"""Tables whose contract protects columns: what the lake has of them, through the whole of a table's batch."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from pipelines.dead_letters.store import SCHEMA
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.errors import StopPipeline
from pipelines.lake.catalog import Lake
from pipelines.ledger.resyncs import Resync
from pipelines.mirror.table.mirror import TableMirror
from pipelines.protection.crypto import ProtectionKeys
from pipelines.protection.letters import SEALED, opened, sealed_by
from pipelines.spark.session import configured
from quality.contract import Column, Contract
from quality.errors import ContractError
from tests.unit.pipelines.change_events import event
from tests.unit.pipelines.harness import (
    GONE,
    RECORD,
    Topic,
    change,
    create,
    delete,
    insert,
    poison,
    read,
    remove,
    row,
    truncate,
    update,
    vault_of,
)  # fmt: skip
from tests.unit.pipelines.mirror.table.test_schema_changes import DOC, ID, NAME, Source, column
from tests.unit.pipelines.protection.test_functions import spelled

pytestmark = pytest.mark.slow

Rows = list[tuple[Any, ...]]


def contract(**protections: Any) -> Contract:
    others = [name for name in ("name", "doc") if name not in protections]
    protected = [Column(name, protection=how) for name, how in protections.items()]
    return Contract(("public", "t"), "1", "active",
                    (Column("id", key=1, required=True), *protected, *map(Column, others)))  # fmt: skip


@pytest.fixture
def keys(spark: SparkSession) -> ProtectionKeys:
    return vault_of(spark).keys


@dataclass(frozen=True)
class Case:
    """``rows``: as they would be, if nothing were protected."""

    label: str
    batches: list[Rows]
    rows: Rows
    dead: list[str] = field(default_factory=list)
    keyed: bool = True


SHOWN_WHOLE = {"spark.sql.ui.explainMode": "extended", "spark.sql.debug.maxToStringFields": "1000"}
A, B, C = (1, "a", "d"), (2, "b", "d"), (3, "c", None)
CASES = [
    Case("rows come", [[create(1, 1, "a"), read(2, 2, "b")]], [A, B]),
    Case("null stays null", [[(1, event("c", 1, row(1, None, None)), None)]], [(1, None, None)]),
    Case("an update, in a batch and later", [[create(1, 1, "x"), update(2, 1, "y")], [update(3, 1, "a")]], [A]),
    Case("a delete", [[create(1, 1, "a"), create(2, 2, "b")], [delete(3, 1)]], [B]),
    Case("a value that was left out stays", [[create(1, 1, "a", "big")], [update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("of an update in the same batch", [[create(1, 1, "a", "big"), update(2, 1, "b", GONE)]], [(1, "b", "big")]),
    Case("a key change takes it along", [[create(1, 1, "a", "big")], [delete(2, 1, new=2), create(2, 2, "a", GONE, 1)]],
         [(2, "a", "big")]),
    Case("a truncate", [[create(1, 1, "a")], [truncate(2), create(3, 2, "b")]], [B]),
    Case("without a key", [[insert(1, A), insert(2, A), insert(3, B)], [change(4, A, B), remove(5, B)]], [A, B],
         keyed=False),
    Case("without a key, nulls", [[insert(1, C), insert(2, C)], [remove(3, C)]], [C], keyed=False),
    Case("without a key, an unknown row", [[insert(1, A)], [remove(2, B)]], [A], ["unknown_row"], keyed=False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_cases(spark: SparkSession, keys: ProtectionKeys, case: Case) -> None:
    topic = Topic(spark, keyed=case.keyed)
    mirror = topic.mirror(contract=contract(name="hash", doc="tokenise"))
    for number, events in enumerate(case.batches):
        topic.apply(mirror, topic.batch(events), number)
    expected = [(key, name and keys.hashed(name), doc and keys.tokenised(doc)) for key, name, doc in case.rows]
    assert topic.rows() == expected
    assert topic.letters.reasons == case.dead
    topic.assert_ledger_is_whole()


def test_every_way(spark: SparkSession, keys: ProtectionKeys) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=contract(name="encrypt", doc="mask"))
    topic.apply(mirror, topic.batch([create(1, 1, "a", "ada@example.org"), create(2, 2, "b", "123456789")]), 0)
    topic.apply(mirror, topic.batch([update(3, 1, "c", GONE)]), 1)
    rows = [(key, keys.decrypted(name, "public.t.name"), doc) for key, name, doc in topic.rows()]
    assert rows == [(1, "c", "***@example.org"), (2, "b", "***6789")]


def test_what_is_dropped_was_never_there(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=contract(doc="drop"))
    topic.apply(mirror, topic.batch([create(1, 1, "a", "big"), create(2, 2, "b")]), 0)
    topic.apply(mirror, topic.batch([update(3, 1, "b", GONE), create(4, 3, "c", GONE, 2)]), 1)
    assert topic.rows() == [(1, "b", None), (2, "b", None), (3, "c", None)]
    assert topic.letters.reasons == []


def test_equal_values_are_equal_in_two_tables(spark: SparkSession) -> None:
    found = []
    for how in ("name", "doc"):
        topic = Topic(spark)
        topic.apply(topic.mirror(contract=contract(**{how: "hash"})), topic.batch([create(1, 1, "ada", "ada")]), 0)
        ((_, name, doc),) = topic.rows()
        found.append(name if how == "name" else doc)
    assert found[0] == found[1] != "ada"


def test_promises_are_asked_of_the_value_itself(spark: SparkSession, keys: ProtectionKeys) -> None:
    topic = Topic(spark)
    promised = Contract(("public", "t"), "1", "active", (
        Column("id", key=1), Column("doc"),
        Column("name", options={"pattern": "^[a-z]+$"}, on_violation="reject", protection="hash"),
    ))  # fmt: skip
    topic.apply(topic.mirror(contract=promised), topic.batch([create(1, 1, "a"), create(2, 2, "7")]), 0)
    assert topic.rows() == [(1, keys.hashed("a"), "d")]
    assert topic.letters.reasons == ["rule_broken"]


def test_a_letter_of_a_protected_table_is_sealed_and_opens(spark: SparkSession, keys: ProtectionKeys) -> None:
    topic = Topic(spark)
    promised = Contract(("public", "t"), "1", "active", (
        Column("id", key=1), Column("name", allowed=("a",), on_violation="reject"), Column("doc", protection="hash"),
    ))  # fmt: skip
    mirror = topic.mirror(contract=promised)
    topic.apply(mirror, topic.batch([
        create(1, 1, "a"), create(2, 2, "unseen name", "unseen doc", old=4), poison(b"unseen bytes"),
    ]), 0)  # fmt: skip
    topic.apply(mirror, topic.batch([update(3, 2, "a", "more unseen")]), 1)
    letters = [letter.asDict(recursive=True) for letter in topic.letters.whole]
    assert sorted(letter["reason"] for letter in letters) == ["not_avro", "parked", "rule_broken"]
    raw = {(r.partition, r.offset): r for r in topic.everything().collect()}
    for letter in letters:
        assert b"unseen" not in repr(letter).encode()
        assert [header["key"] for header in letter["headers"]] == [SEALED]
        assert sealed_by(letter) == keys.fingerprint
        plain, was = opened(letter, keys), raw[(letter["partition"], letter["offset"])]
        assert (plain["key"], plain["value"]) == (was.key, was.value)
        assert plain["headers"] == (was.headers and [h.asDict() for h in was.headers])
    assert any(opened(letter, keys)["headers"] for letter in letters)


def test_keys_of_sealed_letters_are_known_again(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror(contract=contract(doc="hash"))
    topic.apply(mirror, topic.batch([create(1, 1, "a"), (b"k", b"unseen bytes", None, 0)]), 0)
    (letter,) = topic.letters.whole
    table = Lake(spark).create("lakehouse", "dead_letters", SCHEMA, {})
    try:
        columns = ", ".join(letter.asDict())
        plain = Row(**letter.asDict() | {"offset": 40, "key": b"other", "headers": None})
        kinds = dict(field.split(" ", 1) for field in f"{RECORD}, timestamp timestamp".split(", "))
        types = ", ".join(f"{name} {kinds.get(name, 'string')}" for name in letter.asDict())
        spark.createDataFrame([letter, plain], types).createOrReplaceTempView("both")
        spark.sql(f"INSERT INTO {table.sql_name} ({columns}, dead_lettered_at) SELECT {columns}, now() FROM both")
        for vault, known in ((vault_of(spark), {b"k", b"other"}), (vault_of(spark, "x" * 32), {b"other"})):
            parking = WaitingKeys(spark, vault)
            parking.refresh()
            waiting = parking.of(topic.name)
            assert waiting is not None
            assert {bytes(row.key) for row in waiting.collect()} == known
    finally:
        spark.sql(f"DROP TABLE {table.sql_name}")


def test_what_spark_shows_of_a_batch_has_no_key(spark: SparkSession, keys: ProtectionKeys) -> None:
    """What its web pages, their REST API and its event log are made of."""
    topic = Topic(spark)
    mirror = topic.mirror(contract=contract(name="tokenise", doc="encrypt"))
    # A mirror's session has it show less.
    with configured(spark, SHOWN_WHOLE):
        topic.apply(mirror, topic.batch([create(1, 1, "a", "first unseen"), create(2, 2, "b"), poison(b"broken")]), 0)
        topic.apply(mirror, topic.batch([update(3, 1, "c", GONE), delete(4, 2)]), 1)
    assert len(topic.letters.whole) == 1
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    shown = [executions.apply(number) for number in range(executions.size())]
    said = "".join(f"{each.description()}{each.details()}{each.physicalPlanDescription()}{each.modifiedConfigs()}"
                   for each in shown)  # fmt: skip
    assert "aes_encrypt" in said.casefold() or "aesencrypt" in said.casefold()
    assert [how for how in spelled(keys) if how in said] == []
    assert "unseen" not in said


def test_other_tables_letters_stay_as_they_are(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=contract()), topic.batch([create(1, 1, "a"), poison(b"bytes")]), 0)
    assert [bytes(letter.value) for letter in topic.letters.whole] == [b"bytes"]


def test_a_column_of_another_type_is_text(spark: SparkSession, keys: ProtectionKeys) -> None:
    born, size = column(2, "born", "date"), column(3, "size", "int4")
    wide = column(3, "size", "int8")
    promised = Contract(("public", "t"), "1", "active",
                        (Column("id", key=1), Column("born", protection="tokenise"),
                         Column("size", protection="hash"), Column("note", protection="hash")))  # fmt: skip
    source = Source(spark, ID, born, size, contract=promised)
    source.mirrored(source.write("c", 1, 0, 7), source.write("c", 2, None, 8))
    before = source.write("c", 3, 3, 9)
    source.alter(ID, born, wide)
    source.mirrored(before, source.write("u", 1, -719162, 1 << 40), schema_changed=True)
    day = keys.tokenised
    assert source.rows("id", "born", "size") == [
        (1, day("0001-01-01"), keys.hashed(f"{1 << 40}")), (2, None, keys.hashed("8")),
        (3, day("1970-01-04"), keys.hashed("9")),
    ]  # fmt: skip
    note = column(4, "note", "text", missing="none yet")
    source.alter(ID, born, wide, note)
    source.mirrored(source.write("c", 4, None, None, "new"), schema_changed=True)
    assert [found[1] for found in source.rows("id", "note", "born", "size")] == [
        *[keys.hashed("none yet")] * 3, keys.hashed("new"),
    ]  # fmt: skip
    assert "none yet" not in repr(lake(source.topic).properties)
    types = lake(source.topic).column_types
    assert {types[name] for name in ("born", "size", "note")} == {"string"}
    assert said(source.topic) == {"born": ("tokenise", "date"), "size": ("hash", "long"), "note": ("hash", "string")}


def test_a_protected_column_gets_another_name_and_no_contract_knows_it(
    spark: SparkSession, keys: ProtectionKeys
) -> None:
    promised = contract(name="hash")
    source = Source(spark, ID, NAME, DOC, contract=promised)
    source.mirrored(source.write("c", 1, "a", "d"))
    source.alter(ID, column(2, "nick", "text"), DOC)
    with pytest.raises(StopPipeline, match="no column name, but nick, which the contract doesn't name"):
        source.mirrored(source.write("c", 2, "b", "d"))
    source.mirror = source.topic.mirror(contract=Contract(("public", "t"), "1", "active", (
        Column("id", key=1), Column("nick", protection="hash"), Column("doc"))))  # fmt: skip
    source.topic.apply(source.mirror, source.topic.everything(), source.batches)
    assert source.rows("id", "nick", "doc") == [(1, keys.hashed("a"), "d"), (2, keys.hashed("b"), "d")]
    assert said(source.topic) == {"nick": ("hash", "string")}


@pytest.mark.parametrize(("protections", "keyed", "told"), [
    ({"id": "hash"}, True, "id is of the key"),
    ({"name": "encrypt"}, False, "name is encrypted each time anew, and without a key"),
])  # fmt: skip
def test_what_cannot_be_protected_holds_the_table(
    spark: SparkSession, protections: Any, keyed: bool, told: str
) -> None:
    topic = Topic(spark, keyed=keyed)
    columns = [Column(name, protection=protections.get(name)) for name in ("id", "name", "doc")]
    mirror = topic.mirror(contract=Contract(("public", "t"), "1", "active", tuple(columns)))
    with pytest.raises(StopPipeline, match=told):
        topic.apply(mirror, topic.batch([create(1, 1, "a")]), 0)
    assert Lake(spark).table("shop", topic.table) is None


def test_fractions_hold_the_table(spark: SparkSession) -> None:
    promised = Contract(("public", "t"), "1", "active", (Column("id", key=1), Column("size", protection="hash")))
    source = Source(spark, ID, column(2, "size", "float4"), contract=promised)
    with pytest.raises(StopPipeline, match="size is float, which has no text"):
        source.mirrored(source.write("c", 1, 1.5))


CHANGED = [
    ("protected since", contract(), contract(name="hash"), "name is there as in the source, and shall be hash"),
    ("otherwise", contract(name="hash"), contract(name="tokenise"), "name is there hash, and shall be tokenise"),
    ("no more", contract(name="hash"), contract(), "name is there hash, and shall be as in the source"),
]


@pytest.mark.parametrize(("label", "first", "then", "told"), CHANGED, ids=[case[0] for case in CHANGED])
def test_another_protection_waits_for_a_resync(
    spark: SparkSession, keys: ProtectionKeys, label: str, first: Contract, then: Contract, told: str
) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=first), topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    before = topic.rows()
    mirror = topic.mirror(contract=then)
    with pytest.raises(StopPipeline, match=told) as raised:
        topic.apply(mirror, topic.batch([update(3, 1, "c")]), 1)
    assert "lakehouse resync public." in str(raised.value)
    assert topic.rows() == before
    topic.resyncs.newest = Resync("one", dict(enumerate(topic.offsets)))
    topic.apply(mirror, topic.batch([read(4, 1, "c"), update(5, 2, "z"), read(4, 2, "b")]), 2)
    how = then.protected.get("name")
    made = {None: str, "hash": keys.hashed, "tokenise": keys.tokenised}[how]
    assert [name for _, name, _ in topic.rows()] == [made("c"), made("b")]
    assert said(topic) == ({} if how is None else {"name": (how, "string")})
    ended(topic, mirror, 3)


def test_another_key_waits_for_a_resync(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=contract(name="hash")), topic.batch([create(1, 1, "a")]), 0)
    other = vault_of(spark, "another secret that is as long as the first one")
    mirror = topic.mirror(contract=contract(name="hash"), vault=other)
    with pytest.raises(StopPipeline, match=r"name \(hash\) by another key"):
        topic.apply(mirror, topic.batch([update(3, 1, "c")]), 1)


def test_what_shall_be_dropped_goes_at_once(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(contract=contract()), topic.batch([create(1, 1, "a")]), 0)
    topic.apply(topic.mirror(contract=contract(name="drop")), topic.batch([create(2, 2, "b")]), 1)
    assert topic.rows() == [(1, None, "d"), (2, None, "d")]


def test_a_resync_that_began_before_does_not_do(spark: SparkSession) -> None:
    topic = Topic(spark)
    mirror = topic.mirror()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.resyncs.newest = Resync("one", dict(enumerate(topic.offsets)))
    topic.apply(mirror, topic.batch([read(3, 1, "a")]), 1)
    with pytest.raises(StopPipeline, match="shall be hash"):
        topic.apply(topic.mirror(contract=contract(name="hash")), topic.batch([read(3, 2, "b")]), 2)


def test_a_resync_that_was_over_before_does_not_do(spark: SparkSession) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.resyncs.newest = Resync("one", {0: 0, 1: 0}, {0: 1, 1: 1})
    with pytest.raises(StopPipeline, match="shall be hash"):
        topic.apply(topic.mirror(contract=contract(name="hash")), topic.batch([update(3, 2, "c")]), 1)
    assert topic.rows() == [(1, "a", "d"), (2, "b", "d")]


def test_without_a_secret_nothing_is_mirrored(spark: SparkSession) -> None:
    topic = Topic(spark)
    with pytest.raises(ContractError, match="there is no PROTECTION_KEY"):
        topic.mirror(contract=contract(name="hash"), vault=None)


def ended(topic: Topic, mirror: TableMirror, number: int) -> None:
    begun = topic.resyncs.newest
    assert begun is not None
    topic.resyncs.newest = Resync(begun.id, begun.start, dict(enumerate(topic.offsets)))
    before = topic.rows()
    topic.apply(mirror, topic.everything().where("false"), number, {p: (o, o) for p, o in enumerate(topic.offsets)})
    assert topic.rows() == before


def lake(topic: Topic) -> Any:
    return topic.lake_table()


def said(topic: Topic) -> dict[str, tuple[str, str]]:
    entries = json.loads(lake(topic).properties.get("lakehouse.protected", "{}"))
    return {name: (entry["how"], entry["type"]) for name, entry in entries.items()}
