"""The tail of a topic: from a snapshot's position to the agreed one, decoded to what each event says of its row."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from pipelines.errors import RetryBatch, StopPipeline
from pipelines.kafka import avro, client
from pipelines.kafka.avro import Undecodable
from pipelines.kafka.registry import SchemaRegistry
from pipelines.sources.postgres.names import column_names
from pipelines.sources.postgres.snapshot import Snapshot
from services.verify.errors import CannotVerify, Unreachable
from services.verify.overlay import Change
from services.verify.values import is_unavailable, neutral, row_fields

OLD_KEY_HEADER = "__debezium.oldkey"
Record = Mapping[str, Any]


class Decoder(avro.Decoder):
    """Confluent's wire format to Python values and the writer's schema."""

    def __init__(self, registry_url: str) -> None:
        super().__init__(SchemaRegistry(registry_url))
        self._url = registry_url

    def decode(self, data: bytes) -> tuple[Any, dict[str, Any]]:
        """The value, and its writer schema as JSON. Raises Undecodable, or Unreachable without a registry."""
        try:
            return super().decode(data)
        except RetryBatch as error:
            raise Unreachable("The schema registry", self._url, error) from error


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
        position = (message.partition() or 0, message.offset() or 0, op, _lsn(source))
        if op == "t":
            return Change(*position)
        image = event["before"] if op == "d" else event["after"]
        fields, called = row_fields(schema), column_names(schema)
        raw = {called[field]: value for field, value in (image or {}).items()}
        if not raw or not set(self.key_columns) <= raw.keys():
            raise Undecodable("no row, or no key in it")
        old_key = self._old_key(message, called) if op == "c" else None
        may_lack = op == "u" or old_key is not None
        before = None
        if op == "u" and not self.key_columns and event["before"] is not None:
            old = event["before"]
            raw = {n: old.get(n) if is_unavailable(v, self.placeholder) else v for n, v in raw.items()}
            before = {name: neutral(value, fields[name]) for name, value in old.items()}
        unavailable = frozenset(n for n, v in raw.items() if may_lack and is_unavailable(v, self.placeholder))
        row = {name: None if name in unavailable else neutral(value, fields[name]) for name, value in raw.items()}
        key = tuple(_hashable(row[k]) for k in self.key_columns)
        return Change(*position, key, row, unavailable, old_key, before)

    def _old_key(self, message: Message, called: Mapping[str, str]) -> tuple[Any, ...] | None:
        headers: Any = message.headers() or []
        for name, value in headers:
            if name == OLD_KEY_HEADER and value:
                old = {called[field]: former for field, former in json.loads(value).items()}
                return tuple(_hashable(old[k]) for k in self.key_columns)
        return None


def _lsn(source: Mapping[str, Any]) -> int:
    """The log position; of what an incremental snapshot read, that of the newest change which came before it."""
    if source["lsn"] is not None:
        return int(source["lsn"])
    return max((int(lsn) for lsn in json.loads(source.get("sequence") or "[]") if lsn is not None), default=0)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def read_range(bootstrap: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """As :func:`pipelines.kafka.client.read_range`, with this package's errors: Unreachable, CannotVerify."""
    try:
        yield from client.read_range(bootstrap, topic, ranges)
    except RetryBatch as error:
        raise Unreachable("Kafka", bootstrap, error) from error
    except StopPipeline as error:
        raise CannotVerify(str(error)) from error
