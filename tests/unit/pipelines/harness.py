"""A topic, its table and what stands around them, for tests of the stages without servers."""

import base64
import itertools
import json
import os
import pickle
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any, Literal

from pydantic import SecretStr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.changes.waiting import firsts
from pipelines.checks.audit import AuditBranch
from pipelines.errors import UnknownSchema
from pipelines.kafka.profile import TopicProfile, profile_records
from pipelines.kafka.ranges import Ranges
from pipelines.kafka.read import within
from pipelines.kafka.wire import REPLAYED_FROM
from pipelines.kafka.worker_records import RECORD_TYPES
from pipelines.lake.catalog import Lake
from pipelines.lake.file_rows import Budget
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Counts, commit_entries, ledger_problems, read_ledger
from pipelines.ledger.resyncs import Resync
from pipelines.limits import Limits
from pipelines.mirror.table.mirror import TableMirror
from pipelines.mirror.table.rules import Rules
from pipelines.mirror.table.topic import Topic as TopicReader
from pipelines.protection.crypto import ProtectionKeys
from pipelines.protection.functions import Vault
from pipelines.schema.versions import Attribute, TableVersions, Version, table_versions
from pipelines.sources.debezium.names import table_of
from pipelines.sources.debezium.stream import DebeziumStream
from pipelines.sources.postgres.dialect import POSTGRES
from pipelines.spark.dataframes import from_rows
from pipelines.spark.prepared import leaf
from pipelines.specs.layout import Layout
from pipelines.specs.load import SchemaPolicy
from quality.contract import Contract
from tests.unit.pipelines.change_events import PLACEHOLDER, event, key_schema, value_schema, wire

COLUMNS = {"id": "long", "name": ["null", "string"], "doc": ["null", "string"]}
VALUE_ID, KEY_ID = 7, 8
GONE = PLACEHOLDER
# How changes are written: where nothing is said plainly wherever they can be, by MERGE alone, or directly.
WRITER = os.environ.get("WRITER", "plain")
PLAINLY, BUDGET = WRITER == "plain", None if WRITER == "merge" else Budget(100_000)
SECRET = "the secret of these tests, which is long enough"
Line = tuple[int, str | None, str | None]
RECORD = (
    "key binary, value binary, topic string, partition int, offset long, headers array<struct<key:string,value:binary>>"
)


@dataclass
class Letters:
    """Stands where the dead-letter topic and table are; integration tests use the real ones."""

    kept: dict[tuple[int, int], str] = field(default_factory=dict)
    whole: list[Row] = field(default_factory=list)
    closed: set[tuple[int, int]] = field(default_factory=set)

    def write(self, letters: DataFrame, topic: str, batch: int, ranges: Any) -> None:
        found = letters.collect()
        self.kept |= {(row.partition, row.offset): row.reason for row in found}
        self.whole += found

    def void(self, topic: str) -> None:
        self.kept = {(partition, -1 - offset): reason for (partition, offset), reason in self.kept.items()}
        self.closed = {(partition, -1 - offset) for partition, offset in self.closed}

    @property
    def reasons(self) -> list[str]:
        return sorted(self.kept.values())


class Log:
    """Stands where the schema log is, as the source's event trigger would fill it."""

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.unread: list[Version] = []
        self._looks: int | None = None

    def add(
        self, lsn: int, *columns: Attribute, relation: int = 1, reread: bool = False, keys: tuple[int, ...] = (1,),
        by_rows: bool = False,
    ) -> None:  # fmt: skip
        """The table has these columns from the log position ``lsn`` on."""
        key = () if by_rows else tuple(c.name for c in columns if c.number in keys)
        self.versions.append(Version(lsn, relation, columns, key, reread, f"at {lsn}", by_rows))

    def explained(self, schema: str, name: str, _: Any) -> TableVersions:
        self.catch_up()
        return self.table(schema, name)

    def named(self, topic: str) -> tuple[str, str]:
        return table_of(topic, [])

    def table(self, schema: str, name: str) -> TableVersions:
        if self._looks is not None:
            if self._looks == 0:
                self.catch_up()
            self._looks -= 1
        return table_versions(self.versions)

    def hold_back(self, looks: int | None = None) -> None:
        """What was added last is there, and nobody has read it yet; another table's thread does after so many looks."""
        self.unread.append(self.versions.pop())
        self._looks = looks

    def news(self) -> set[tuple[str, str]]:
        return set()

    def is_read(self) -> bool:
        return not self.unread

    def catch_up(self) -> None:
        self.versions, self.unread = [*self.versions, *self.unread], []


class Resyncs:
    """Stands where the table of resyncs is."""

    def __init__(self) -> None:
        self.newest: Resync | None = None

    def of(self, topic: str) -> Resync | None:
        return self.newest


class Registry:
    def __init__(self, schemas: dict[int, str]) -> None:
        self._schemas = schemas

    def schema(self, schema_id: int) -> str:
        if schema_id not in self._schemas:
            raise UnknownSchema(str(schema_id))
        return self._schemas[schema_id]

    def newest(self, subject: str) -> int | None:
        """By what it is a schema of: a change event, or a key."""
        values = {identifier for identifier, schema in self._schemas.items() if "Envelope" in schema}
        return max(values if subject.endswith("-value") else self._schemas.keys() - values, default=None)


def row(key: int, name: str | None = None, doc: str | None = None) -> dict[str, Any]:
    return {"id": key, "name": name, "doc": doc}


def create(lsn: int, key: int, name: str, doc: str = "d", old: int | None = None) -> tuple[Any, ...]:
    return (key, event("c", lsn, row(key, name, doc)), old)


def update(lsn: int, key: int, name: str, doc: str = "d") -> tuple[Any, ...]:
    return (key, event("u", lsn, row(key, name, doc)), None)


def read(lsn: int, key: int, name: str, doc: str = "d") -> tuple[Any, ...]:
    return (key, event("r", lsn, row(key, name, doc)), None)


def delete(lsn: int, key: int, new: int | None = None) -> tuple[Any, ...]:
    return (key, event("d", lsn, None, row(key)), new)


def tombstone(key: int) -> tuple[Any, ...]:
    return (key, None, None)


def truncate(lsn: int, partition: int = 0) -> tuple[Any, ...]:
    return (None, event("t", lsn), None, partition)


def insert(lsn: int, line: Line, partition: int = 0, op: str = "c") -> tuple[Any, ...]:
    """Of a table without a key, as are the next two."""
    return (None, event(op, lsn, row(*line)), None, partition)


def change(lsn: int, old: Line, new: Line, partition: int = 0) -> tuple[Any, ...]:
    return (None, event("u", lsn, row(*new), row(*old)), None, partition)


def remove(lsn: int, line: Line, partition: int = 0) -> tuple[Any, ...]:
    return (None, event("d", lsn, None, row(*line)), None, partition)


def poison(data: bytes, partition: int = 0) -> tuple[Any, ...]:
    return (None, data, None, partition)


@cache
def vault_of(spark: SparkSession, secret: str = SECRET) -> Vault:
    """Keys of a secret, given to Spark."""
    keys = ProtectionKeys.of(SecretStr(secret))
    assert keys is not None
    return Vault.of(spark, keys)


_topics = itertools.count()


class Topic:
    """A topic of its own: gives offsets by partition, batches as Spark's Kafka source would, and what it held before,
    as Kafka would. ``budget``: None: every change is written by MERGE. ``positions``: partition and offset of each
    record, in the order in which they were written.
    """

    def __init__(self, spark: SparkSession, keyed: bool = True, budget: Budget | None = BUDGET) -> None:
        self.spark, self.keyed = spark, keyed
        self.table = f"t{next(_topics)}"
        self.name = f"shop.public.{self.table}"
        self.value_schema, self.key_schema = value_schema(self.table, COLUMNS), key_schema(self.table, {"id": "long"})
        self.registry = Registry({VALUE_ID: self.value_schema, KEY_ID: self.key_schema})
        self.letters = Letters()
        self.schema_log = Log()
        self.source = DebeziumStream(
            "shop",
            ("public",),
            POSTGRES,
            self.registry,
            self.schema_log,
            PLACEHOLDER,
            "lakehouse.heartbeat",
            "lakehouse.schema_changes",
        )
        self.identity = "first"
        self.offsets = [0, 0]
        self.positions: list[tuple[int, int]] = []
        self.batches: list[DataFrame] = []
        self.records: list[tuple[Any, ...]] = []
        self.let_pass: dict[int, int] = {}
        self.resyncs = Resyncs()
        self.held = [0, 0]
        self.at_once = 1000
        self.limits = Limits()
        self.budget = budget

    def mirror(
        self, policy: SchemaPolicy | None = None, layout: Layout | None = None, contract: Contract | None = None,
        vault: Vault | Literal["usual"] | None = "usual",
    ) -> TableMirror:  # fmt: skip
        """What a new process would begin with."""
        topic = TopicReader(self.name, self.source, self)
        audit = AuditBranch(self.spark, contract, lambda: None) if contract is not None and contract.blocking else None
        if vault == "usual":
            vault = vault_of(self.spark) if contract is not None and contract.protected else None
        rules = Rules(
            "shop", "mirror", 0.5, policy or SchemaPolicy(), layout or Layout(), contract, audit, vault, self.limits,
            self.budget,
        )  # fmt: skip
        return TableMirror(topic, rules, self.letters, self, self.resyncs)

    def batch(self, events: list[tuple[Any, ...]]) -> DataFrame:
        """The records of ``events``, at the next offsets."""
        records = from_rows(self.spark, [self._record(*e) for e in events], RECORD)
        self.batches.append(records.withColumn("timestamp", F.current_timestamp()).persist())
        return self.batches[-1]

    def renew(self, identity: str) -> None:
        """The topic is gone, and another one has its name."""
        self.identity, self.offsets, self.held = identity, [0, 0], [0, 0]
        self.batches, self.records = [], []

    def topic_id(self, topic: str) -> str:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        return self.identity

    def marker(self, partition: int) -> None:
        """An offset without a record, as the end of a transaction is."""
        self.offsets[partition] += 1

    def everything(self) -> DataFrame:
        """All records so far."""
        return reduce(DataFrame.union, self.batches)

    def read(
        self, session: SparkSession, topic: str, ranges: Ranges, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        if ranges:
            yield ranges, self.everything().where(within(ranges))

    def ends(self, topic: str) -> dict[int, int]:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        return {partition: end for partition, end in enumerate(self.offsets) if end}

    def prepared(self, session: SparkSession) -> DataFrame:
        """As pipelines.kafka.topic_reader.TopicReader does, but that what is asked for is in the question."""

        def read(nothing: Iterable[Any]) -> Iterator[Any]:
            for _ in nothing:
                pass
            import base64
            import pickle

            import pyarrow as pa
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            names, columns = pickle.loads(base64.b64decode(str(context.getLocalProperty("lakehouse.asked"))))
            if not names:
                raise RuntimeError("an offset isn't stored any more")
            header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            types = [pa.binary(), pa.binary(), pa.int32(), pa.int64(), header, pa.int32()]
            arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names)

        return leaf(session, read, RECORD_TYPES)

    def ask(self, topic: str, ranges: Ranges) -> str:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        if self.lost(topic, ranges):
            return base64.b64encode(pickle.dumps(([], []))).decode()
        inside = [r for r in self.records if r[3] in ranges and ranges[r[3]][0] <= r[4] < ranges[r[3]][1]]
        valued = [r for r in inside if r[1] is not None]
        headers = [[{"key": key, "value": value} for key, value in r[5] or ()] for r in valued]
        dead = [len(inside) - len(valued) if i == 0 else 0 for i in range(len(valued))]
        columns = [*([r[i] for r in valued] for i in (0, 1, 3, 4)), headers, dead]
        if not valued:
            columns = [[None], [b""], [-1], [-1], [[]], [-1 - len(inside)]]
        names = ["key", "value", "partition", "offset", "headers", "tombstones"]
        return base64.b64encode(pickle.dumps((names, columns))).decode()

    def present_ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        return dict(enumerate(self.offsets))

    def lost(self, topic: str, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """As pipelines.kafka.topic_reader.TopicReader does."""
        return {p: (start, self.held[p]) for p, (start, _) in ranges.items() if start < self.held[p]}

    def of(self, topic: str) -> DataFrame | None:
        """As pipelines.dead_letters.waiting.WaitingKeys does."""
        kept = self.letters.kept.keys() - self.letters.closed
        if not kept:
            return None
        named = from_rows(self.spark, sorted(kept), "partition int, offset long")
        return firsts(self.everything().join(named, ["partition", "offset"]))

    def keys(self, topic: str) -> Set[bytes]:
        """As pipelines.dead_letters.waiting.WaitingKeys does."""
        open_ones = self.letters.kept.keys() - self.letters.closed
        return {r[0] for r in self.records if (r[3], r[4]) in open_ones and r[0] is not None}

    def accepted(self, topic: str) -> dict[int, int]:
        """As pipelines.dead_letters.waiting.WaitingKeys does."""
        return self.let_pass

    def _record(
        self, key: Any, value: Any, other_key: Any = None, partition: int | None = None, replayed: bool = False
    ) -> tuple[Any, ...]:
        partition = int(key or 0) % 2 if partition is None else partition
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        self.positions.append((partition, offset))
        if isinstance(key, bytes):
            key_bytes: bytes | None = key
        else:
            key_bytes = wire(KEY_ID, self.key_schema, {"id": key}) if self.keyed and key is not None else None
        data = value if value is None or isinstance(value, bytes) else wire(VALUE_ID, self.value_schema, value)
        half = "newkey" if isinstance(value, dict) and value["op"] == "d" else "oldkey"
        headers = None if other_key is None else [(f"__debezium.{half}", json.dumps({"id": other_key}).encode())]
        if replayed:
            headers = [*(headers or []), (REPLAYED_FROM, b"0:0")]
        self.records.append((key_bytes, data, self.name, partition, offset, headers))
        return self.records[-1]

    def apply(
        self,
        mirror: TableMirror,
        batch: DataFrame,
        number: int,
        planned: Ranges | None = None,
        schema_changed: bool = False,
    ) -> TopicOutcome:
        """Mirror a batch; its plan is what its records span on the topic's two partitions, unless one is given. What it
        holds is expected where the mirror would.
        """
        seen = profile_records(batch).get(self.name) or TopicProfile(self.name)
        planned = planned or {**dict.fromkeys(range(2), (0, 0)), **seen.ranges}
        if PLAINLY and not schema_changed and mirror.is_plain(planned):
            outcome = TopicOutcome(self.name)
            if mirror.mirror_plainly(planned, number, self.spark.newSession(), outcome):
                return outcome
        seen = mirror.expects(planned) or seen
        outcome = TopicOutcome(self.name, rows=seen.rows)
        raw = batch.where(F.col("topic") == self.name)
        return mirror.mirror(TopicBatch(raw, seen, planned, number, self.spark.newSession(), outcome), schema_changed)

    def lake_table(self) -> LakeTable:
        """The table as it is now."""
        table = Lake(self.spark).table("shop", self.table)
        assert table is not None
        return table

    def rows(self) -> list[tuple[Any, ...]]:
        """The table's rows, by key."""
        found = self.spark.table(f"lake.shop.{self.table}").select(*COLUMNS).orderBy("id").collect()
        return [tuple(r) for r in found]

    def summaries(self) -> list[dict[str, str]]:
        """The summaries of the current snapshot and its ancestors, oldest first."""
        table = Lake(self.spark).table("shop", self.table)
        return list(table.summaries())[::-1] if table else []

    def assert_ledger_is_whole(self) -> Counts:
        """The table's history holds every offset of the topic once, and accounts for every record. The sum of it."""
        history = commit_entries(self.summaries())
        assert ledger_problems(history, complete=True) == []
        assert read_ledger(reversed(self.summaries())).positions == {
            partition: end for partition, end in enumerate(self.offsets) if end
        }
        start = max((index for index, commit in enumerate(history) if commit.begun_anew), default=0)
        counts = sum((commit.counts for commit in history[start:] if commit.counts), start=Counts())
        assert counts.records == self.everything().count()
        # More letters than this table's commits counted may be there from before it was dropped or rolled back.
        assert counts.dead_lettered <= len(self.letters.kept)
        return counts
