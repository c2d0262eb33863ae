"""The tail of a topic: from a snapshot's position to the agreed one, decoded to what each event says of its row."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message

from pipelines.kafka.avro import Undecodable
from pipelines.sources.base.database import Snapshot, SourceEvents
from pipelines.sources.debezium.names import OLD_KEY_HEADER, column_names
from pipelines.sources.debezium.values import is_unavailable, row_fields
from pipelines.sources.kinds import source_events
from services.stack.records import Decoder
from services.verify.overlay import Change

Record = Mapping[str, Any]


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
    events: SourceEvents = field(default_factory=source_events)

    def changes(self, messages: Iterator[Message]) -> Iterator[Change]:
        """Return the changes that the agreed position holds."""
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
        transaction = None if op == "r" else self.events.transaction(source)
        if transaction is not None and not self.snapshot.sees(transaction):
            self.truncated_later |= op == "t"
            return None
        position = (message.partition() or 0, message.offset() or 0, op, self.events.log_position(source))
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
            before = {name: self.events.value(value, fields[name]) for name, value in old.items()}
        unavailable = frozenset(n for n, v in raw.items() if may_lack and is_unavailable(v, self.placeholder))
        row = {n: None if n in unavailable else self.events.value(v, fields[n]) for n, v in raw.items()}
        key = tuple(_hashable(row[k]) for k in self.key_columns)
        return Change(*position, key, row, unavailable, old_key, before)

    def _old_key(self, message: Message, called: Mapping[str, str]) -> tuple[Any, ...] | None:
        headers: Any = message.headers() or []
        for name, value in headers:
            if name == OLD_KEY_HEADER and value:
                old = {called[field]: former for field, former in json.loads(value).items()}
                return tuple(_hashable(old[k]) for k in self.key_columns)
        return None


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value
