"""Random histories in random batches against a dictionary: whatever the cuts, restarts, drops and rollbacks, the table
never holds a value that its source didn't.

A few fixed examples by default; as many random ones as MODEL_EXAMPLES says (`make test-model`). One that fails is
printed, with what reproduces it.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipelines.changes import stats, topic_batch
from pipelines.changes.stats import MOST_LISTED
from pipelines.changes.topic_batch import CACHED_OFFSETS, FEW_RECORDS
from pipelines.kafka.expected import EXPECTED_OFFSETS
from pipelines.kafka.read import within
from pipelines.lake.catalog import Lake
from pipelines.merge import keyed
from pipelines.mirror.table import mirror as table
from quality.contract import Column, Contract
from tests.unit.pipelines.harness import (
    GONE,
    Line,
    Topic,
    change,
    create,
    delete,
    insert,
    poison,
    remove,
    tombstone,
    truncate,
    update,
    vault_of,
)

KEYS = st.integers(1, 4)
ASKED = os.environ.get("MODEL_EXAMPLES")
EXAMPLES = int(ASKED or 5)
Row = tuple[str, str]

CHANGE = st.one_of(
    st.tuples(st.just("write"), KEYS, st.booleans()),
    st.tuples(st.just("write"), KEYS, st.booleans()),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("move"), KEYS, KEYS),
    st.tuples(st.just("truncate"), st.integers(0, 1)),
    st.tuples(st.just("poison"), st.integers(0, 1)),
)
# What happens after a batch; after "left out" the next batch goes without the table, which is fresh enough.
BETWEEN = st.sampled_from(["nothing", "nothing", "left out", "restart", "drop", "roll back"])


@dataclass
class Source:
    """The source's table, and the events that its changes made."""

    rows: dict[int, Row] = field(default_factory=dict)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    states: set[Row] = field(default_factory=set)
    lsn: int = 0

    def apply(self, kind: str, *arguments: Any) -> None:
        self.lsn += 1
        getattr(self, "_" + kind)(*arguments)
        self.states |= set(self.rows.values())

    def _write(self, key: int, new_document: bool) -> None:
        name, document = f"name {self.lsn}", f"document {self.lsn}"
        if key not in self.rows:
            self.events.append(create(self.lsn, key, name, document))
        elif new_document:
            self.events.append(update(self.lsn, key, name, document))
        else:
            document = self.rows[key][1]
            self.events.append(update(self.lsn, key, name, GONE))
        self.rows[key] = (name, document)

    def _delete(self, key: int) -> None:
        if self.rows.pop(key, None):
            self.events += [delete(self.lsn, key), tombstone(key)]

    def _move(self, old: int, new: int) -> None:
        if old in self.rows and new not in self.rows:
            name, _ = self.rows[new] = self.rows.pop(old)
            self.events += [delete(self.lsn, old), tombstone(old), create(self.lsn, new, name, GONE, old=old)]

    def _truncate(self, partition: int) -> None:
        self.rows.clear()
        self.events.append(truncate(self.lsn, partition))

    def _poison(self, partition: int) -> None:
        self.events.append(poison(b"not avro", partition))


# Of a table that it protects, who has the keys reads the same.
TOKENISED = Contract(("public", "t"), "1", "active", (
    Column("id", key=1), Column("name", protection="tokenise"), Column("doc", protection="tokenise"),
))  # fmt: skip
HOW = settings(
    max_examples=EXAMPLES, deadline=None, database=None, print_blob=True, derandomize=ASKED is None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@HOW
@given(
    changes=st.lists(CHANGE, min_size=4, max_size=30),
    cuts=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), BETWEEN), min_size=1, max_size=5),
    few_records=st.sampled_from([0, 2, FEW_RECORDS]),
    kept=st.sampled_from([0, 2, CACHED_OFFSETS]),
    listed=st.sampled_from([0, MOST_LISTED]),
    looked_at=st.sampled_from([0, EXPECTED_OFFSETS]),
)
def test_the_table_equals_the_dictionary(
    spark: SparkSession, changes: list[tuple[Any, ...]], cuts: list[tuple[int, int, str]], few_records: int,
    kept: int, listed: int, looked_at: int,
) -> None:  # fmt: skip
    source, topic = Source(), Topic(spark)
    source.apply("write", 1, True)
    for each in changes:
        source.apply(*each)
    topic.batch(source.events)
    with (
        patch.object(topic_batch, "FEW_RECORDS", few_records),
        patch.object(topic_batch, "KEPT_OFFSETS", kept),
        patch.object(keyed, "ROWS_PER_KEY", 0),
        patch.object(stats, "MOST_LISTED", listed),
        patch.object(table, "ASSUMED_OFFSETS", looked_at),
    ):
        _run(topic, cuts)
    found = {key: (name, document) for key, name, document in topic.rows()}
    uncertain = _keys_of_letters(topic)
    for key in found.keys() | source.rows.keys():
        if key not in uncertain:
            assert found.get(key) == source.rows.get(key), f"key {key}"
        elif key in found:
            # Its later events wait behind a letter: the row may be an older one, and never one that there wasn't.
            assert found[key] in source.states, f"key {key}"
    topic.assert_ledger_is_whole()


def _clear(topic: Topic, contract: Contract | None) -> list[tuple[Any, ...]]:
    """The table's rows as the source has them."""
    if contract is None:
        return topic.rows()
    read = vault_of(topic.spark).keys.detokenised
    return [(key, *(value and read(value) for value in values)) for key, *values in topic.rows()]


def _run(topic: Topic, cuts: list[tuple[int, int, str]]) -> None:
    everything = topic.everything()
    mirror, reached, before = topic.mirror(), [0, 0], ""
    # The last batch takes what is left, and one more of a new process finds what the last drop or rollback took.
    for number, (first, second, between) in enumerate([*cuts, (10_000, 10_000, "restart"), (0, 0, "nothing")]):
        planned = further(reached, (first, second), topic)
        if before != "left out":
            topic.apply(mirror, everything.where(within(planned)), number, planned)
        reached, before = [end for _, end in planned.values()], between
        disturb(topic, between)
        if between == "restart":
            mirror = topic.mirror()


def further(reached: Sequence[int], sizes: Sequence[int], topic: Topic) -> dict[int, tuple[int, int]]:
    """As many of each partition's next offsets as ``sizes`` says, as far as there are any."""
    steps = zip(reached, sizes, topic.offsets, strict=True)
    return {partition: (start, min(start + size, end)) for partition, (start, size, end) in enumerate(steps)}


def disturb(topic: Topic, between: str) -> None:
    table = Lake(topic.spark).table("shop", topic.table)
    if table is None:
        return
    if between == "drop":
        topic.spark.sql(f"DROP TABLE lake.shop.{topic.table}")
    elif between == "roll back" and topic.summaries():
        name = f"lake.shop.{topic.table}"
        oldest = topic.spark.table(f"{name}.history").where("is_current_ancestor").orderBy("made_current_at").first()
        topic.spark.sql(f"CALL lake.system.set_current_snapshot('shop.{topic.table}', {oldest['snapshot_id']})")


def _keys_of_letters(topic: Topic) -> set[int]:
    records = topic.everything().where("key is not null").select("partition", "offset", "key").collect()
    return {
        record["key"][-1] // 2 for record in records if (record["partition"], record["offset"]) in topic.letters.kept
    }


LINES = st.sampled_from([(1, "a", None), (1, "a", "x"), (2, None, None)])
PARTITION = st.integers(0, 1)
LINE_CHANGE = st.one_of(
    st.tuples(st.just("insert"), PARTITION, LINES),
    st.tuples(st.just("insert"), PARTITION, LINES),
    st.tuples(st.just("change"), PARTITION, LINES, LINES),
    st.tuples(st.just("remove"), PARTITION, LINES),
    st.tuples(st.just("truncate"), PARTITION),
)


@dataclass
class Lines:
    """A source's table without a key, and the events that its changes made, each on some partition."""

    rows: Counter[Line] = field(default_factory=Counter)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    lsn: int = 0

    def apply(self, kind: str, partition: int, *lines: Line) -> None:
        self.lsn += 1
        if kind == "truncate":
            self.rows.clear()
            self.events.append(truncate(self.lsn, partition))
        elif kind == "insert":
            self.rows[lines[0]] += 1
            self.events.append(insert(self.lsn, lines[0], partition))
        elif self.rows[lines[0]]:
            self.rows -= Counter(lines[:1])
            self.rows += Counter(lines[1:])
            made = change if kind == "change" else remove
            self.events.append(made(self.lsn, *lines, partition))


@HOW
@given(
    changes=st.lists(LINE_CHANGE, min_size=4, max_size=40),
    cuts=st.lists(st.tuples(st.integers(1, 12), *[st.integers(0, 8)] * 2, BETWEEN), min_size=2, max_size=5),
    contract=st.sampled_from([None, TOKENISED]),
)
def test_a_table_without_a_key_equals_the_multiset(
    spark: SparkSession, changes: list[tuple[Any, ...]], cuts: list[tuple[int, int, int, str]],
    contract: Contract | None,
) -> None:  # fmt: skip
    """Each partition is read as far as chance has it, of what has been written by then."""
    source, topic = Lines(), Topic(spark, keyed=False)
    source.apply("insert", 0, (1, "a", None))
    for each in changes:
        source.apply(*each)
    mirror, reached, before, events = topic.mirror(contract=contract), [0, 0], "", source.events
    for number, (new, first, second, between) in enumerate([*cuts, (len(events), 99, 99, "restart"), (0, 0, 0, "")]):
        if events[:new]:
            topic.batch(events[:new])
        events = events[new:]
        planned = further(reached, (first, second), topic)
        if before != "left out":
            topic.apply(mirror, topic.everything().where(within(planned)), number, planned)
        reached, before = [end for _, end in planned.values()], between
        disturb(topic, between)
        if between == "restart":
            mirror = topic.mirror(contract=contract)
    assert Counter(_clear(topic, contract)) == source.rows
    assert topic.letters.kept == {}
    topic.assert_ledger_is_whole()
