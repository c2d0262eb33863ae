"""The history of the captured tables' columns, as the source's event trigger wrote it down (see capture.sql).

It comes through Kafka, in the order of the log, on a topic of its own: a change is there before the first row that was
written after it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from pipelines.errors import RetryBatch
from pipelines.kafka.avro import Decoder, Undecodable
from pipelines.kafka.client import ANSWER_SECONDS, EARLIEST, LATEST, ask, client_config, list_offsets, read_range
from pipelines.kafka.registry import SchemaRegistry
from pipelines.sources.postgres.capture import SCHEMA_CHANGES
from pipelines.sources.postgres.names import column_names, is_escaped, table_of

# Longer than capture takes to look after the source's tables.
PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class Attribute:
    """A column of one version. ``number``: PostgreSQL's attnum, which stays when the name changes.

    ``missing``: what rows from before the column show in it, as PostgreSQL prints it; None: null, or nobody knows.
    """

    number: int
    name: str
    type: str
    typmod: int
    declared: str
    missing: str | None = None


@dataclass(frozen=True)
class Version:
    """A table's columns from the log position ``lsn`` on. Generated columns aren't published, and aren't here.

    ``reread``: older rows have values that no event tells; their snapshot was asked for. A table that is gone has no
    columns.
    """

    lsn: int
    relation: int
    columns: tuple[Attribute, ...]
    key: tuple[str, ...]
    reread: bool
    changed_at: str

    @cached_property
    def by_number(self) -> dict[int, Attribute]:
        """Attnum to column."""
        return {column.number: column for column in self.columns}

    @cached_property
    def key_numbers(self) -> frozenset[int]:
        """The attnums of the key's columns."""
        return frozenset(column.number for column in self.columns if column.name in self.key)

    @cached_property
    def written_key(self) -> frozenset[tuple[int, str, str, int, str]]:
        """The key's columns as a record's key shows them: where any of this changes, so do the bytes of a row's key,
        and with them its partition.
        """
        key = (column for column in self.columns if column.name in self.key)
        return frozenset((c.number, c.name, c.type, c.typmod, c.declared) for c in key)

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        """Name to column."""
        return {column.name: column for column in self.columns}


@dataclass(frozen=True)
class TableVersions:
    """The versions of a table that now has this name, oldest first; empty: nothing was written down.

    ``replaced_at``: the log position from which on it is another table than the one that had the name before.
    """

    versions: tuple[Version, ...] = ()
    replaced_at: int | None = None

    @property
    def newest(self) -> Version | None:
        """The newest version."""
        return self.versions[-1] if self.versions else None

    def at(self, lsn: int | None) -> Version | None:
        """The version that began at ``lsn``."""
        return next((version for version in self.versions if version.lsn == lsn), None)

    @property
    def key_changes(self) -> tuple[Version, ...]:
        """The versions from which on rows have another key than in the version before, or the same one written in
        another way; oldest first.
        """
        pairs = zip(self.versions, self.versions[1:], strict=False)
        return tuple(after for before, after in pairs if before.written_key != after.written_key)

    def up_to(self, version: Version, included: bool) -> "TableVersions":
        """The table as it was known when ``version`` began, with it or without."""
        kept = tuple(v for v in self.versions if v.lsn < version.lsn or (included and v.lsn == version.lsn))
        return TableVersions(kept, self.replaced_at)

    def first_with(self, number: int) -> Version | None:
        """The first version that has the column."""
        return next((version for version in self.versions if number in version.by_number), None)


class SchemaLog:
    """All tables' versions, read as far as they were needed. Safe to use from several threads."""

    def __init__(self, kafka_bootstrap: str, registry: SchemaRegistry, source: str) -> None:
        self.topic = f"{source}.{SCHEMA_CHANGES}"
        self._kafka_bootstrap, self._decoder = kafka_bootstrap, Decoder(registry)
        self._lock = Lock()
        self._read = 0
        self._news: set[tuple[str, str]] = set()
        self._versions: dict[tuple[str, str], list[Version]] = {}

    def table(self, schema: str, name: str) -> TableVersions:
        """What is known of a table."""
        with self._lock:
            return table_versions(self._versions.get((schema, name), []))

    def named(self, topic: str) -> tuple[str, str]:
        """Schema and name of a topic's table. Raises RetryBatch."""
        if is_escaped(topic):
            self.catch_up()
        with self._lock:
            return table_of(topic, self._versions)

    def explained(self, schema: str, name: str, explains: Callable[[TableVersions], bool]) -> TableVersions:
        """What is known of a table once that ``explains`` what was met, or after a while as it is.

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
        """The tables (schema and name) of which there is something new that this hasn't said yet. Raises RetryBatch."""
        self.catch_up()
        with self._lock:
            told, self._news = self._news, set()
            return told

    def catch_up(self) -> None:
        """Read what is new. Raises RetryBatch without an answer."""
        with self._lock:
            admin = AdminClient(client_config(self._kafka_bootstrap))
            try:
                # A source that was prepared by an earlier release, or by hand, may have no such table.
                if self.topic not in ask(lambda: admin.list_topics(timeout=ANSWER_SECONDS)).topics:
                    return
                end = ask(lambda: list_offsets(admin, [(self.topic, 0)], LATEST))[self.topic, 0]
                held = ask(lambda: list_offsets(admin, [(self.topic, 0)], EARLIEST))[self.topic, 0]
            except KafkaException as error:
                raise RetryBatch(f"Kafka doesn't answer at {self._kafka_bootstrap}: {error}") from error
            for message in read_range(self._kafka_bootstrap, self.topic, {0: (max(held, self._read), end)}):
                found = self._version(message.value())
                if found is not None:
                    table, version = found
                    self._versions.setdefault(table, []).append(version)
                    self._news.add(table)
            self._read = end

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
        row = {called[field]: said for field, said in event["after"].items()}
        return (row["schema_name"], row["table_name"]), version(row)


def version(row: dict[str, Any]) -> Version:
    """A version from a row of the source's table."""
    columns = tuple(
        Attribute(c["attnum"], c["name"], c["type"], c["typmod"], c["declared"], c["missing"])
        for c in json.loads(row["columns"])
        if not c["generated"]
    )
    key = tuple(json.loads(row["key_columns"]))
    return Version(row["lsn"], row["relation"], columns, key, row["reread"], row["changed_at"])


def table_versions(found: list[Version]) -> TableVersions:
    """The versions of the newest table among ``found``, and where it took another one's place."""
    ordered = sorted({version.lsn: version for version in found}.values(), key=lambda version: version.lsn)
    if not ordered:
        return TableVersions()
    relation = ordered[-1].relation
    mine = tuple(version for version in ordered if version.relation == relation and version.columns)
    return TableVersions(mine, max((version.lsn for version in ordered if version.relation != relation), default=None))
