"""Random histories of a table whose columns change, in random batches, against a dictionary."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipelines.kafka.read import within
from pipelines.schema.versions import Attribute
from tests.unit.pipelines.harness import GONE
from tests.unit.pipelines.mirror.table.test_model import BETWEEN, HOW, KEYS, disturb, further
from tests.unit.pipelines.mirror.table.test_schema_changes import ID, NAME, Source, column

WHICH = st.integers(0, 3)
NAMES = ("name", "a", "b", "c")
CHANGE = st.one_of(
    *[st.tuples(st.just("write"), KEYS, st.booleans())] * 3,
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("add"), WHICH, st.sampled_from(["int4", "int8", "text"]), st.booleans()),
    st.tuples(st.just("drop"), WHICH),
    st.tuples(st.just("rename"), WHICH, WHICH),
    st.tuples(st.just("widen"), WHICH),
)


@dataclass
class Changing:
    """The source's table, its rows by key and column number, and the events that are still to be written to Kafka."""

    source: Source
    rows: dict[int, dict[int, Any]] = field(default_factory=dict)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    toasted: set[tuple[int, int]] = field(default_factory=set)
    altered: bool = False

    def apply(self, kind: str, *arguments: Any) -> None:
        getattr(self, "_" + kind)(*arguments)

    @property
    def columns(self) -> list[Attribute]:
        """All but the key."""
        return [c for c in self.source.columns if c.number != ID.number]

    def _write(self, key: int, unchanged: bool) -> None:
        before = self.rows.get(key)
        number = self.source.lsn
        row = {c.number: f"text {number}" if c.type == "text" else number for c in self.columns}
        sent = dict(row)
        if before is not None and unchanged:
            kept = [c.number for c in self.columns if (key, c.number) in self.toasted]
            row |= {n: before[n] for n in kept}
            sent |= dict.fromkeys(kept, GONE)
        self.toasted |= {(key, c.number) for c in self.columns if c.type == "text"}
        self.rows[key] = row
        self.events.append(self.source.write("c" if before is None else "u", key, *sent.values()))

    def _delete(self, key: int) -> None:
        if self.rows.pop(key, None) is not None:
            self.toasted -= {(key, c.number) for c in self.columns}
            self.events.append(self.source.write("d", key, *[None] * len(self.columns)))

    def _add(self, which: int, kind: str, has_default: bool) -> None:
        taken = {c.name for c in self.columns}
        if NAMES[which] in taken:
            return
        new = 1 + max(c.number for version in self.source.topic.schema_log.versions for c in version.columns)
        default = ("it's old" if kind == "text" else 7) if has_default else None
        for row in self.rows.values():
            row[new] = default
        self._alter(*self.columns, column(new, NAMES[which], kind, None if default is None else str(default)))

    def _drop(self, which: int) -> None:
        gone = {c.number for c in self.columns[which : which + 1]}
        for row in self.rows.values():
            for number in gone:
                row.pop(number)
        if gone:
            self._alter(*(c for c in self.columns if c.number not in gone))

    def _rename(self, which: int, to: int) -> None:
        if NAMES[to] not in {c.name for c in self.columns}:
            renamed = self.columns[which : which + 1]
            self._alter(
                *(
                    column(c.number, NAMES[to], c.type, c.missing and c.missing.text) if c in renamed else c
                    for c in self.columns
                )
            )

    def _widen(self, which: int) -> None:
        wider = [c for c in self.columns[which : which + 1] if c.type == "int4"]
        self._alter(
            *(column(c.number, c.name, "int8", c.missing and c.missing.text) if c in wider else c for c in self.columns)
        )

    def _alter(self, *columns: Attribute) -> None:
        if (ID, *columns) != self.source.columns:
            self.source.alter(ID, *columns)
            self.altered = True


@pytest.mark.slow
@HOW
@given(
    changes=st.lists(CHANGE, min_size=6, max_size=40),
    cuts=st.lists(st.tuples(st.integers(1, 12), *[st.integers(0, 8)] * 2, BETWEEN), min_size=2, max_size=5),
)
def test_a_table_whose_columns_change_equals_the_dictionary(
    spark: SparkSession, changes: list[tuple[Any, ...]], cuts: list[tuple[int, int, int, str]]
) -> None:
    """Each partition is read as far as chance has it, and the schema log tells what has been changed by then."""
    table = Changing(Source(spark, ID, NAME))
    table.apply("write", 1, False)
    topic, reached, before = table.source.topic, [0, 0], ""
    mirror = topic.mirror()
    for number, (new, first, second, between) in enumerate([*cuts, (len(changes), 99, 99, "restart"), (0, 0, 0, "")]):
        for each in changes[:new]:
            table.apply(*each)
        changes = changes[new:]
        if table.events:
            topic.batch(table.events)
        table.events = []
        planned = further(reached, (first, second), topic)
        if before != "left out" or table.altered:
            topic.apply(mirror, topic.everything().where(within(planned)), number, planned, table.altered)
        table.altered, reached, before = False, [end for _, end in planned.values()], between
        disturb(topic, between)
        if between == "restart":
            mirror, table.altered = topic.mirror(), True
    columns = [ID, *table.columns]
    found = table.source.rows(*(c.name for c in columns))
    assert found == [(key, *(row[c.number] for c in table.columns)) for key, row in sorted(table.rows.items())]
    assert topic.letters.kept == {}
    topic.assert_ledger_is_whole()
