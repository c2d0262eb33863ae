"""Topic: what a topic holds, by partition, and what the schema log and the registry say of its records."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial, reduce

from pyspark.sql import DataFrame, Row, SparkSession

from pipelines.changes.topic_batch import TopicBatch
from pipelines.kafka.profile import TopicProfile, profile
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.kafka.registry import SchemaRegistry
from pipelines.kafka.topic_reader import TopicReader
from pipelines.ledger.entries import Ledger
from pipelines.mirror.table import boundary
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import version_of
from pipelines.schema.versions import TableVersions, Version
from pipelines.sources.debezium import schemas
from pipelines.sources.postgres.schema_log import SchemaLog


class Topic:
    """One topic of a source table. ``placeholder``: what stands for a value that the connector left out."""

    def __init__(
        self, name: str, registry: SchemaRegistry, history: TopicReader, schema_log: SchemaLog, placeholder: str
    ) -> None:
        self.name, self.placeholder = name, placeholder
        self._registry, self._history, self._schema_log = registry, history, schema_log
        self._explained: set[int] = set()

    @cached_property
    def table(self) -> tuple[str, str]:
        """The source's schema and table."""
        return self._schema_log.named(self.name)

    def profile(self, records: DataFrame) -> TopicProfile:
        """What ``records`` hold."""
        return profile(records).get(self.name, TopicProfile(self.name))

    def looked_at(self, part: TopicBatch) -> TopicBatch:
        """``part`` with what it holds, of which that was assumed."""
        seen = self.profile(part.raw)
        part.outcome.rows += seen.rows - part.seen.rows
        return replace(part, seen=seen)

    def look_up(self, seen: TopicProfile) -> schemas.Schemas:
        """The schemas of what was ``seen``. Raises RetryBatch."""
        return schemas.look_up(self._registry, seen, self.table)

    def read(self, session: SparkSession, ranges: Ranges, whole: bool = False) -> Iterator[tuple[Ranges, DataFrame]]:
        """Parts of ``ranges``, each with its records, in order; or all as one part, if ``whole``."""
        return self._history.read(session, self.name, ranges, whole)

    def fits(self, ranges: Ranges, rows: int) -> bool:
        """Whether ``ranges`` and so many ``rows`` are no more than a batch may bring."""
        return offset_count(ranges) + rows <= self._history.at_once

    def ends(self) -> dict[int, int]:
        """Partition to the offset after its last record now. Raises RetryBatch."""
        return self._history.ends(self.name)

    def lost(self, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """What of ``ranges`` Kafka doesn't hold any more. Raises RetryBatch."""
        return self._history.lost(self.name, ranges) if ranges else {}

    def older(
        self, change: Version, reached: Ledger, session: SparkSession, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """What lies between ``reached`` and ``change``, in every partition."""
        pending, read = reached.up_to(self.ends()), partial(self.read, session)
        ranges = boundary.before(read, self.look_up, self.name, pending, change.lsn, self.placeholder)
        return self.read(session, ranges, whole)

    def versions(self) -> TableVersions:
        """What the schema log says of the table."""
        return self._schema_log.table(*self.table)

    def explained(self, seen: TopicProfile, shape: TableShape) -> TableVersions:
        """The same, asked again where it may not have explained the schemas of what was ``seen`` yet, the newest of
        which has ``shape``.
        """
        identifiers = seen.schema_ids.keys() | seen.key_schema_ids
        if identifiers <= self._explained:
            return self.versions()
        versions = self._schema_log.explained(*self.table, lambda known: version_of(shape, known) is not None)
        self._explained |= identifiers
        return versions

    def catch_up(self) -> None:
        """Read the schema log to its end."""
        self._schema_log.catch_up()

    def wider(self, part: TopicBatch, known: Ledger, facts: Row, keys: tuple[str, ...]) -> TopicBatch | None:
        """``part`` with the records of other partitions without which it can't be merged; None: it lacks nothing.

        Where a row's key changes, every partition is read on to that position, for both halves of the change, the
        delete and the create, of which one has the values that the other left out. Without a key a topic's records have
        no partition of their own: where rows are removed, all that was written before is needed, or a row could be
        removed before its insert, or before a truncate, on another partition was read. ``known``: the table's ledger.
        """
        needed = facts.moved is not None if keys else facts.removals > 0 and part.versions is None
        if not needed:
            return None
        reached, session = known.after(part.offsets), part.session
        if keys:
            missing = self._through(facts.moved, reached, session)
        else:
            ends = self.ends()
            missing = reached.up_to(ends) if len(ends) > 1 else {}
        if not missing:
            return None
        more = (records.select(part.raw.columns) for _, records in self.read(session, missing))
        raw = reduce(DataFrame.unionByName, more, part.raw)
        seen = self.profile(raw)
        part.outcome.reread += seen.rows - part.seen.rows
        offsets = known.up_to(reached.after(missing).positions)
        # What was read on to may hold halves of its own.
        return replace(part, raw=raw, seen=seen, offsets=offsets, whole=not keys)

    def _through(self, lsn: int, reached: Ledger, session: SparkSession) -> Ranges:
        """What lies between ``reached`` and the last record up to a log position, in every partition."""
        pending, read = reached.up_to(self.ends()), partial(self.read, session)
        return boundary.through(read, self.look_up, self.name, pending, lsn, self.placeholder)
