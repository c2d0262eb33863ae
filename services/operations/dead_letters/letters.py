"""The letters and what was done with them, as the lake keeps both."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, In
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from pipelines.dead_letters.actions import ACCEPTED, CLOSED, GIVEN_UP, REPLAYED, REPLAYING
from pipelines.kafka.avro import Decoder, Undecodable
from pipelines.lake.names import DEAD_LETTER_ACTIONS, NAMESPACE
from pipelines.protection.crypto import ProtectionKeys, Unreadable
from pipelines.protection.letters import opened, sealed_by
from services.stack.lake import dead_letters

ACTIONS = (NAMESPACE, DEAD_LETTER_ACTIONS)
OPEN = "open"
CLOSING = In(term="action", literals=CLOSED)
POSITION = ("topic", "partition", "offset")
LISTED = (*POSITION, "stage", "reason", "message", "timestamp", "dead_lettered_at")

_SCHEMA = Schema(
    NestedField(1, "topic", StringType(), required=True),
    NestedField(2, "partition", IntegerType(), required=True),
    NestedField(3, "offset", LongType(), required=True),
    NestedField(4, "action", StringType(), required=True),
    NestedField(5, "because", StringType()),
    NestedField(6, "at", TimestamptzType(), required=True),
)
_ARROW = pa.schema([
    pa.field("topic", pa.string(), nullable=False), pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False), pa.field("action", pa.string(), nullable=False),
    pa.field("because", pa.string()), pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
])  # fmt: skip

Position = tuple[str, int, int]
Letter = dict[str, Any]


@dataclass(frozen=True)
class LetterFilter:
    """Which letters: all that meet every condition given. ``key``: as text, see :func:`key_is`."""

    positions: frozenset[Position] = frozenset()
    topic: str | None = None
    reason: str | None = None
    since: datetime | None = None
    key: str | None = None
    states: frozenset[str] = field(default_factory=lambda: frozenset({OPEN}))

    @property
    def has_condition(self) -> bool:
        """Whether there is a condition at all."""
        return bool(self.positions or self.topic or self.reason or self.since or self.key)


class Letters:
    """All letters of a lake.

    What raises PyIceberg's and Kafka's errors is left to the caller. ``keys``: those that sealed letters are opened
    with; without them these stay as they are.
    """

    def __init__(self, catalog: Catalog, keys: ProtectionKeys | None = None) -> None:
        self._catalog, self._keys = catalog, keys
        self._table = dead_letters(catalog)

    def find(self, wanted: LetterFilter, decoder: Decoder, columns: tuple[str, ...] = LISTED) -> list[Letter]:
        """Return the letters, oldest first by topic, partition and offset.

        Each has its ``state``, ``because`` and ``at``; where ``columns`` has parts of the record also ``sealed`` (see
        :func:`unsealed`).
        """
        if self._table is None:
            return []
        condition: BooleanExpression = AlwaysTrue()
        for column, value in (("topic", wanted.topic), ("reason", wanted.reason)):
            if value is not None:
                condition = And(condition, EqualTo(term=column, value=value))
        if wanted.since is not None:
            since = GreaterThanOrEqual(term="dead_lettered_at", value=wanted.since.isoformat())
            condition = And(condition, since)
        fields = tuple(dict.fromkeys((*columns, "key"))) if wanted.key is not None else columns
        whole = bool({"key", "value"} & set(fields))
        # Which of them are sealed, a header says.
        fields = tuple(dict.fromkeys((*fields, "headers"))) if whole else fields
        rows: list[Letter] = self._table.scan(row_filter=condition, selected_fields=fields).to_arrow().to_pylist()
        done = self._actions()
        found = []
        for row in (unsealed(row, self._keys) for row in rows) if whole else rows:
            action = done.get(position(row), {"action": OPEN, "because": None, "at": None})
            row |= {"state": action["action"], "because": action["because"], "closed_at": action["at"]}
            if (
                row["state"] in wanted.states
                and (not wanted.positions or position(row) in wanted.positions)
                and (wanted.key is None or key_is(row["key"], wanted.key, decoder))
            ):
                found.append(row)
        return sorted(found, key=position)

    def close(self, letters: Iterable[Letter], action: str, because: str | None) -> None:
        """Write down what was done with these letters, in one commit."""
        at = datetime.now(UTC)
        rows = [dict(zip(POSITION, position(letter), strict=True)) for letter in letters]
        self._write([{**row, "action": action, "because": because, "at": at} for row in rows])

    def begin(self, letters: Iterable[Letter], number: str) -> None:
        """Write down that these letters are about to be put back by the replay ``number``."""
        self.close(letters, REPLAYING, number)

    def finish(self, number: str | None) -> None:
        """Close the letters of the replay ``number``, unless they are. None: there has been no replay."""
        if number is None:
            return
        begun = self._actions(And(EqualTo(term="action", value=REPLAYING), EqualTo(term="because", value=number)))
        left = [begun[where] for where in begun.keys() - self._actions().keys()]
        if left:
            self.close(left, REPLAYED, None)

    def accept(self, topic: str, ends: Mapping[int, int], because: str) -> None:
        """Write down that whatever is below ``ends`` (partition to offset) may become a letter, be it ever so many."""
        self._decide(ACCEPTED, topic, ends, because)

    def give_up(self, topic: str, ends: Mapping[int, int], because: str) -> None:
        """Write down that a held table is let go of: what it lacks below ``ends`` (partition to offset) is given up."""
        self._decide(GIVEN_UP, topic, ends, because)

    def _decide(self, action: str, topic: str, ends: Mapping[int, int], because: str) -> None:
        said = {"topic": topic, "action": action, "because": because, "at": datetime.now(UTC)}
        self._write([{**said, "partition": partition, "offset": end} for partition, end in ends.items()])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        self._catalog.create_table_if_not_exists(ACTIONS, _SCHEMA).append(pa.Table.from_pylist(rows, _ARROW))

    def _actions(self, condition: BooleanExpression = CLOSING) -> dict[Position, dict[str, Any]]:
        """Return the newest action of each letter that meets the condition."""
        try:
            table: Table = self._catalog.load_table(ACTIONS)
        except NoSuchTableError:
            return {}
        rows = table.scan(row_filter=condition).to_arrow()
        return {position(row): row for row in rows.sort_by("at").to_pylist()}


def unsealed(letter: Letter, keys: ProtectionKeys | None) -> Letter:
    """Return a letter as it was, if it is sealed and these keys open it.

    ``sealed``: None: it never was; True: it still is; False: it isn't any more.
    """
    by = sealed_by(letter)
    if by is None or keys is None or by != keys.fingerprint:
        return {**letter, "sealed": None if by is None else True}
    try:
        return {**opened(letter, keys), "sealed": False}
    except Unreadable:
        return {**letter, "sealed": True}


def position(letter: Letter) -> Position:
    """Return a letter's topic, partition and offset."""
    return letter["topic"], letter["partition"], letter["offset"]


def key_is(key: bytes | None, text: str, decoder: Decoder) -> bool:
    """Return whether ``text`` names this key.

    As JSON (`{"id": 7}`), a single column's value (`7`), or bytes (`0x0000…`).
    """
    if key is None or text.startswith("0x"):
        return key is not None and text[2:].lower() == key.hex()
    try:
        decoded, _ = decoder.decode(key)
    except Undecodable:
        return text == key.decode(errors="replace")
    plain = json.loads(json.dumps(decoded, default=str))
    single = next(iter(plain.values())) if isinstance(plain, dict) and len(plain) == 1 else plain
    return text == str(single) or _json(text) == plain


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
