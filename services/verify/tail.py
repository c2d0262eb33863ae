"""The tail of a topic: from a snapshot's position to the agreed one, decoded to what each event says of its row."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipelines.errors import RetryBatch, UnknownSchema
from pipelines.kafka import client_config
from pipelines.registry import SchemaRegistry
from pipelines.sources.postgres.snapshot import Snapshot
from services.verify.errors import CannotVerify, Unreachable
from services.verify.overlay import Change
from services.verify.values import is_unavailable, neutral, row_fields

HEADER_BYTES = 5
OLD_KEY_HEADER = "__debezium.oldkey"
POLL_SECONDS = 1.0
SILENT_POLLS = 30
Record = Mapping[str, Any]


class Undecodable(ValueError):
    """The bytes aren't an event that can be read; the mirror makes them dead letters."""


class Decoder:
    """Confluent's wire format to Python values and the writer's schema."""

    def __init__(self, registry_url: str) -> None:
        self._registry = SchemaRegistry(registry_url)
        self._parsed = lru_cache(maxsize=1024)(self._load)
        self._url = registry_url

    def decode(self, data: bytes) -> tuple[Any, dict[str, Any]]:
        """The value, and its writer schema as JSON. Raises Undecodable, or Unreachable without a registry."""
        if len(data) <= HEADER_BYTES or data[0] != 0:
            raise Undecodable("not in Confluent's wire format")
        try:
            parsed, schema = self._parsed(int.from_bytes(data[1:HEADER_BYTES], "big"))
        except UnknownSchema as error:
            raise Undecodable(str(error)) from error
        except RetryBatch as error:
            raise Unreachable("The schema registry", self._url, error) from error
        try:
            return fastavro.schemaless_reader(io.BytesIO(data[HEADER_BYTES:]), parsed, None), schema
        except (EOFError, ValueError, TypeError, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise Undecodable(f"not Avro of its schema: {error}") from error

    def _load(self, schema_id: int) -> tuple[Any, dict[str, Any]]:
        schema = json.loads(self._registry.schema(schema_id))
        return fastavro.parse_schema(schema), schema


@dataclass
class Tail:
    """Reads one table's part of a topic.

    ``mirrored``: partition to the offset below which the mirror says that everything is in the lake. After iterating:
    ``read`` events, of them ``later`` ones that came after the agreed position (``truncated_later``: a truncate among
    them), ``passed`` records which the mirror says are in the lake though the table's ledger doesn't, and
    ``undecodable_count``, the first few named in ``undecodable`` as ``partition:offset``.
    """

    decoder: Decoder
    snapshot: Snapshot
    placeholder: str
    key_columns: tuple[str, ...]
    mirrored: Mapping[int, int]
    read: int = 0
    later: int = 0
    passed: int = 0
    truncated_later: bool = False
    undecodable_count: int = 0
    undecodable: list[str] = field(default_factory=list)

    def changes(self, messages: Iterator[Message]) -> Iterator[Change]:
        """The changes that the agreed position holds."""
        for message in messages:
            self.read += 1
            self.passed += (message.offset() or 0) < self.mirrored.get(message.partition() or 0, 0)
            value = message.value()
            if value is None:
                continue
            try:
                change = self._change(message, value)
            except Undecodable:
                self.undecodable_count += 1
                if len(self.undecodable) < 10:
                    self.undecodable.append(f"{message.partition()}:{message.offset()}")
                continue
            if change is None:
                self.later += 1
            else:
                yield change

    def _change(self, message: Message, value: bytes) -> Change | None:
        event, schema = self.decoder.decode(value)
        if not isinstance(event, dict) or not {"op", "source", "before", "after"} <= event.keys():
            raise Undecodable("not a change event")
        op, source = event["op"], event["source"]
        # What a snapshot reads was committed before the snapshot; it carries the id of no transaction of its own.
        transaction = None if op == "r" else source.get("txId")
        if transaction is not None and not self.snapshot.sees(transaction):
            self.truncated_later |= op == "t"
            return None
        position = (message.partition() or 0, message.offset() or 0, op, source["lsn"] or 0)
        if op == "t":
            return Change(*position)
        raw = event["before"] if op == "d" else event["after"]
        if raw is None or not set(self.key_columns) <= raw.keys():
            raise Undecodable("no row, or no key in it")
        fields = row_fields(schema)
        old_key = self._old_key(message) if op == "c" else None
        may_lack = op == "u" or old_key is not None
        unavailable = frozenset(n for n, v in raw.items() if may_lack and is_unavailable(v, self.placeholder))
        row = {name: None if name in unavailable else neutral(value, fields[name]) for name, value in raw.items()}
        key = tuple(_hashable(row[k]) for k in self.key_columns)
        return Change(*position, key, row, unavailable, old_key)

    def _old_key(self, message: Message) -> tuple[Any, ...] | None:
        headers: Any = message.headers() or []
        for name, value in headers:
            if name == OLD_KEY_HEADER and value:
                old = json.loads(value)
                return tuple(_hashable(old[k]) for k in self.key_columns)
        return None


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def read_range(bootstrap: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Committed records of ``ranges`` (partition to first offset and the one after the last), in offset order by
    partition. Raises CannotVerify where an offset isn't held any more.
    """
    left = {partition: end for partition, (start, end) in ranges.items() if start < end}
    if not left:
        return
    config = client_config(bootstrap) | {
        "group.id": "lakehouse.verify", "enable.auto.commit": False, "isolation.level": "read_committed",
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50,
        "queued.max.messages.kbytes": 32768,
    }  # fmt: skip
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in left])
        silent = 0
        while left:
            message = consumer.poll(POLL_SECONDS)
            silent = silent + 1 if message is None else 0
            if message is None:
                if silent > SILENT_POLLS:
                    raise Unreachable("Kafka", bootstrap, f"no record of {topic} for {SILENT_POLLS} s")
                continue
            yield from _taken(consumer, message, topic, left)
    finally:
        consumer.close()


def _taken(consumer: Consumer, message: Message, topic: str, left: dict[int, int]) -> Iterator[Message]:
    partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
    if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise CannotVerify(f"{topic} doesn't hold the records any more that the lake lacks: {error.str()}")
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    end = left.get(partition)
    if end is None:
        return
    # The end of a partition is reported at an offset past the markers of transactions, which are no records.
    if error is None and offset < end:
        yield message
    if offset >= end - (error is None):
        del left[partition]
        consumer.pause([TopicPartition(topic, partition)])
