"""Tell a topic of each new row of a table, once.

The messages of a commit and those of the commits before it are one transaction of Kafka, and each says which snapshot
it is of, and of which key. So the topic itself tells how far it was told, and of what, whatever was killed on the way:
nothing is kept beside it. A row that goes and comes again isn't told of again.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from pipelines.errors import RetryBatch
from pipelines.kafka.client import (
    ANSWER_SECONDS,
    EARLIEST,
    LATEST,
    admin_client,
    ask,
    client_config,
    create_topic,
    list_offsets,
    read_range,
)
from pipelines.lake.arrow_schema import arrow_field, for_spark
from pipelines.lake.changed_rows import ChangedFiles, steps_between
from pipelines.lake.storage import Storage
from pipelines.lake.stored_files import read_rows
from pipelines.lake.table import LakeTable
from pipelines.specs.derived import Announce, DerivedSpec

# Headers of a message.
SNAPSHOT, IDENTITY, TABLE = "snapshot", "identity", "table"
_UNTOLD = -1


class Announcer:
    """Tells one topic of one table's new rows. Used by one thread at a time."""

    def __init__(self, spec: DerivedSpec, rule: Announce, kafka_bootstrap: str) -> None:
        self._spec, self._rule, self._bootstrap = spec, rule, kafka_bootstrap
        self._producer: Producer | None = None
        # The snapshot up to which the topic was told; 0: nothing was. And of which keys, by their hashes.
        self._told = _UNTOLD
        self._known: set[bytes] = set()

    def announce(self, session: SparkSession, table: LakeTable) -> int:
        """Tell what is new, and return how many rows that was. Raises RetryBatch."""
        snapshot = table.snapshot_id
        if snapshot is None or snapshot == self._told:
            return 0
        try:
            producer = self._ready()
            if self._told == snapshot:
                return 0
            rows = self._news(session, table, snapshot)
            if rows:
                self._send(producer, rows, snapshot)
        except (KafkaException, OSError) as error:
            self._producer, self._told = None, _UNTOLD
            raise RetryBatch(f"{self._rule.topic} wasn't told of {self._spec.table}: {error}") from error
        self._told = snapshot
        self._known |= {self._identity(row) for row in rows}
        return len(rows)

    def _ready(self) -> Producer:
        """Return the producer. A transaction that another one has begun before, and hasn't ended, is ended by it."""
        if self._producer is None:
            create_topic(self._bootstrap, self._rule.topic, {"retention.ms": "-1"})
            producer = Producer(client_config(self._bootstrap) | {"transactional.id": f"lakehouse.{self._spec.table}"})
            producer.init_transactions(ANSWER_SECONDS * 3)
            self._producer = producer
            self._told, self._known = 0, set()
            for message in read_range(self._bootstrap, self._rule.topic, {0: self._bounds()}):
                headers = dict(message.headers() or ())
                self._told = int(headers.get(SNAPSHOT) or 0)
                identity = headers.get(IDENTITY)
                self._known |= {identity} if isinstance(identity, bytes) else set()
        return self._producer

    def _news(self, session: SparkSession, table: LakeTable, snapshot: int) -> list[dict[str, Any]]:
        """Return the rows that the topic hasn't been told of, in the order in which they were committed."""
        steps = steps_between(table, self._told, snapshot) if self._told else None
        storage = Storage.of(session)
        if steps is None:
            # Nothing was told yet, or the snapshot is gone of which it was told last.
            rows = _sorted(for_spark(session.table(table.sql_name).toArrow()), self._spec.key).to_pylist()
        else:
            rows = [row for step in steps for row in self._added(storage, table, step)]
        # Of a row that was replaced its key has been told.
        fresh = {self._identity(row): row for row in rows}
        return [row for identity, row in fresh.items() if identity not in self._known]

    def _added(self, storage: Storage, table: LakeTable, step: ChangedFiles) -> list[dict[str, Any]]:
        """Return the rows that one commit has written."""
        fields = [arrow_field(column) for column in table.columns]
        added = [for_spark(read_rows(storage, location, fields)) for location in step.added]
        rows: list[dict[str, Any]] = _sorted(pa.concat_tables(added), self._spec.key).to_pylist() if added else []
        return rows

    def _send(self, producer: Producer, rows: Iterable[dict[str, Any]], snapshot: int) -> None:
        failed: list[Any] = []
        producer.begin_transaction()
        for row in rows:
            value = json.dumps(row, default=_text, ensure_ascii=False).encode()
            headers: list[tuple[str, str | bytes | None]] = [
                (SNAPSHOT, str(snapshot)), (IDENTITY, self._identity(row)), (TABLE, self._spec.table),
            ]  # fmt: skip
            producer.produce(
                self._rule.topic, value, self._key(row), headers=headers,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )  # fmt: skip
            producer.poll(0)
        producer.flush(ANSWER_SECONDS * 3)
        if failed:
            raise KafkaException(failed[0])
        producer.commit_transaction(ANSWER_SECONDS * 3)

    def _key(self, row: dict[str, Any]) -> bytes:
        return _text(row[self._rule.key]).encode()

    def _identity(self, row: dict[str, Any]) -> bytes:
        """Return a hash of a row's key."""
        return hashlib.sha256(json.dumps([_text(row[name]) for name in self._spec.key]).encode()).digest()[:16]

    def _bounds(self) -> tuple[int, int]:
        admin, key = admin_client(self._bootstrap), (self._rule.topic, 0)
        start = ask(lambda: list_offsets(admin, [key], EARLIEST)[key])
        return start, ask(lambda: list_offsets(admin, [key], LATEST)[key])


def _sorted(rows: pa.Table, key: Iterable[str]) -> pa.Table:
    return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in key]))


def _text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
