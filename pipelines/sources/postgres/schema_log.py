"""The history of the captured tables' columns, as the source's event trigger wrote it down (see capture.sql).

It comes through Kafka, in the order of the log, on a topic of its own: a change is there before the first row that was
written after it.
"""

import json
from collections.abc import Callable
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from pipelines.errors import RetryBatch
from pipelines.kafka.avro import Decoder, Undecodable
from pipelines.kafka.client import ANSWER_SECONDS, EARLIEST, LATEST, admin_client, ask, list_offsets, read_range
from pipelines.kafka.registry import SchemaLookup
from pipelines.schema.lake_types import UnsupportedType
from pipelines.schema.versions import Attribute, TableVersions, Version, table_versions
from pipelines.sources.debezium.names import column_names, is_escaped, table_of
from pipelines.sources.postgres.capture import SCHEMA_CHANGES
from pipelines.sources.postgres.types import column_default, postgres_type

# Longer than capture takes to look after the source's tables.
PATIENCE_SECONDS = 20


class PostgresSchemaLog:
    """The versions of all tables, read as far as they were needed. Safe to use from several threads."""

    def __init__(self, kafka_bootstrap: str, registry: SchemaLookup, source: str) -> None:
        self._topic = f"{source}.{SCHEMA_CHANGES}"
        self._kafka_bootstrap, self._decoder = kafka_bootstrap, Decoder(registry)
        self._lock = Lock()
        self._read = 0
        self._news: set[tuple[str, str]] = set()
        self._versions: dict[tuple[str, str], list[Version]] = {}

    def table(self, schema: str, name: str) -> TableVersions:
        """Return what is known of a table."""
        with self._lock:
            return table_versions(self._versions.get((schema, name), []))

    def named(self, topic: str) -> tuple[str, str]:
        """Return schema and name of a topic's table. Raises RetryBatch."""
        if is_escaped(topic):
            self.catch_up()
        with self._lock:
            return table_of(topic, self._versions)

    def explained(self, schema: str, name: str, explains: Callable[[TableVersions], bool]) -> TableVersions:
        """Return what is known of a table once that ``explains`` what was met, or after a while as it is.

        A change stands in the log before the first record that was written after it, but Kafka may show the two in the
        other order for a moment; and where no trigger wrote it down, capture does so soon. Raises RetryBatch.
        """

        def look() -> TableVersions:
            self.catch_up()
            return self.table(schema, name)

        patience = Retrying(
            retry=retry_if_result(lambda found: found.newest is not None and not explains(found)),
            stop=stop_after_delay(PATIENCE_SECONDS), wait=wait_exponential(0.1, max=2),
            retry_error_callback=lambda _: self.table(schema, name),
        )  # fmt: skip
        return patience(look)

    def news(self) -> set[tuple[str, str]]:
        """Return the tables of which there is something new that this hasn't said yet. Raises RetryBatch."""
        self.catch_up()
        with self._lock:
            told, self._news = self._news, set()
            return told

    def catch_up(self) -> None:
        """Read what is new. Raises RetryBatch without an answer."""
        with self._lock:
            admin = admin_client(self._kafka_bootstrap)
            try:
                # A source that was prepared by an earlier release, or by hand, may have no such table.
                if self._topic not in ask(lambda: admin.list_topics(timeout=ANSWER_SECONDS)).topics:
                    return
                end = ask(lambda: list_offsets(admin, [(self._topic, 0)], LATEST))[self._topic, 0]
                earliest = ask(lambda: list_offsets(admin, [(self._topic, 0)], EARLIEST))[self._topic, 0]
            except KafkaException as error:
                raise RetryBatch(f"Kafka doesn't answer at {self._kafka_bootstrap}: {error}") from error
            for message in read_range(self._kafka_bootstrap, self._topic, {0: (max(earliest, self._read), end)}):
                found = self._version(message.value())
                if found is not None:
                    table, version = found
                    self._versions.setdefault(table, []).append(version)
                    self._news.add(table)
            self._read = end

    def is_read(self) -> bool:
        """Return whether nothing is in the log now that wasn't read. Raises RetryBatch without an answer."""
        with self._lock:
            read = self._read
        if not read:
            return False
        try:
            return (
                ask(lambda: list_offsets(admin_client(self._kafka_bootstrap), [(self._topic, 0)], LATEST))[
                    self._topic, 0
                ]
                <= read
            )
        except KafkaException as error:
            raise RetryBatch(f"Kafka doesn't answer at {self._kafka_bootstrap}: {error}") from error

    def _version(self, value: bytes | None) -> tuple[tuple[str, str], Version] | None:
        if value is None:
            return None
        try:
            event, schema = self._decoder.decode(value)
        except Undecodable:
            return None
        if event["after"] is None:
            return None
        called = column_names(schema)
        row = {called[field]: value for field, value in event["after"].items()}
        return (row["schema_name"], row["table_name"]), version(row)


def attribute(
    number: int,
    name: str,
    kind: str,
    typmod: int,
    declared: str,
    missing: str | None = None,
    base: str | None = None,
) -> Attribute:
    """Return a column as the source's table of schema changes has it. ``kind``: as in pg_type.

    ``base``: the type that its values are of, where ``kind`` doesn't say it.
    """
    try:
        # How many bits a domain has, and so whether they are a boolean, only its events tell.
        lake_type = None if base == "bit" else postgres_type(base or kind, typmod)
    except UnsupportedType:
        lake_type = None
    return Attribute(number, name, kind, typmod, declared, column_default(missing, kind), lake_type, base)


def version(row: dict[str, Any]) -> Version:
    """Return a version from a row of the source's table."""
    columns = tuple(
        attribute(c["attnum"], c["name"], c["type"], c["typmod"], c["declared"], c["missing"], c.get("base"))
        for c in json.loads(row["columns"])
        if not c["generated"]
    )
    key = json.loads(row["key_columns"])
    by_rows = key is None
    return Version(row["lsn"], row["relation"], columns, tuple(key or ()), row["reread"], row["changed_at"], by_rows)
