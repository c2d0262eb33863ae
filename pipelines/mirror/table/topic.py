"""One topic: what it holds, by partition, and what the schema log and the registry say of its records."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property, partial, reduce

from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.stats import BatchStats
from pipelines.changes.topic_batch import TopicBatch
from pipelines.kafka.profile import TopicProfile, profile_records
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.ledger.entries import Ledger
from pipelines.ledger.topic_check import TopicCheck
from pipelines.mirror.table import boundary
from pipelines.mirror.table.needs import MoreRecords
from pipelines.mirror.table.ports import TopicRecords
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import version_of
from pipelines.schema.versions import TableVersions, Version
from pipelines.sources.base.source import Schemas, StreamSource, TableName


class Topic:
    """One topic of a source table. ``records``: reads it anew."""

    def __init__(self, name: str, source: StreamSource, records: TopicRecords) -> None:
        self.name, self.source = name, source
        self._records, self._schema_log = records, source.schema_log
        self._explained: set[int] = set()

    @cached_property
    def table(self) -> TableName:
        """The source's schema and table."""
        return self._schema_log.named(self.name)

    def profile(self, records: DataFrame) -> TopicProfile:
        """Look at what ``records`` hold."""
        return profile_records(records).get(self.name, TopicProfile(self.name))

    def profile_again(self, batch: TopicBatch) -> TopicBatch:
        """Look at what ``batch`` holds, whose profile was only expected."""
        profile = self.profile(batch.raw)
        batch.outcome.rows += profile.rows - batch.profile.rows
        return replace(batch, profile=profile)

    def schemas(self, profile: TopicProfile) -> Schemas:
        """Return the schemas of the records that ``profile`` is of. Raises RetryBatch."""
        return self.source.schemas(profile, self.table)

    def read(self, session: SparkSession, ranges: Ranges, whole: bool = False) -> Iterator[tuple[Ranges, DataFrame]]:
        """Yield parts of ``ranges``, each with its records, in order; or all as one part, if ``whole``."""
        return self._records.read(session, self.name, ranges, whole)

    def prepared(self, session: SparkSession) -> DataFrame:
        """Return the records of what a run of a plan is asked for."""
        return self._records.prepared(session)

    def ask(self, ranges: Ranges) -> str:
        """Return what to ask a run for, so that it is of these ranges."""
        return self._records.ask(self.name, ranges)

    def present_ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Return partition to the offset after the last record that may be read now. Raises RetryBatch.

        {}: the schema log has more by now than was read of it, which may concern the last records.
        """
        ends = self._records.present_ends(self.name, partitions)
        return ends if self._schema_log.is_read() else {}

    def check(self, command: str, void_letters: Callable[[str], None]) -> TopicCheck:
        """Return the check that a table's positions are of this topic. See there for what it takes."""
        return TopicCheck(self.name, self._records, command, void_letters)

    def fits(self, ranges: Ranges, rows: int) -> bool:
        """Return whether ``ranges`` and so many ``rows`` are no more than a batch may bring."""
        return offset_count(ranges) + rows <= self._records.at_once

    def ends(self) -> dict[int, int]:
        """Return partition to the offset after its last record now. Raises RetryBatch."""
        return self._records.ends(self.name)

    def lost(self, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """Return what of ``ranges`` Kafka doesn't hold any more. Raises RetryBatch."""
        return self._records.lost(self.name, ranges) if ranges else {}

    def older(
        self, change: Version, reached: Ledger, session: SparkSession, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """Yield what lies between ``reached`` and ``change``, in every partition."""
        pending, read = reached.up_to(self.ends()), partial(self.read, session)
        ranges = boundary.ranges_before(read, self.source, self.schemas, self.name, pending, change.log_position)
        return self.read(session, ranges, whole)

    def versions(self) -> TableVersions:
        """Return what the schema log says of the table."""
        return self._schema_log.table(*self.table)

    def has_one_version(self) -> bool:
        """Return whether the table has had the same columns and key ever since, by the schema log as it was read."""
        versions = self.versions()
        return len(versions.versions) == 1 and bool(versions.versions[0].key) and not versions.gone

    def explained(self, profile: TopicProfile, shape: TableShape) -> TableVersions:
        """Return what the schema log says of the table, once it explains the schemas in ``profile``.

        The newest of these has ``shape``. What was explained before isn't asked again.
        """
        identifiers = profile.schema_ids.keys() | profile.key_schema_ids
        if identifiers <= self._explained:
            return self.versions()
        versions = self._schema_log.explained(*self.table, lambda known: version_of(shape, known) is not None)
        self._explained |= identifiers
        return versions

    def catch_up(self) -> None:
        """Read the schema log to its end."""
        self._schema_log.catch_up()

    def missing_records(
        self, batch: TopicBatch, known: Ledger, stats: BatchStats, keys: tuple[str, ...]
    ) -> MoreRecords | None:
        """Return the records of other partitions without which ``batch`` can't be merged; None: it lacks nothing.

        Where a row's key changes, every partition is read on to that position, for both halves of the change, the
        delete and the create, of which one has the values that the other left out. Without a key a topic's records have
        no partition of their own: where rows are removed, all that was written before is needed, or a row could be
        removed before its insert, or before a truncate, on another partition was read. ``known``: the table's ledger.
        """
        if batch.whole:
            return None
        reached = known.after(batch.offsets)
        if not keys:
            ends = self.ends() if stats.removals and batch.versions is None else {}
            missing = reached.up_to(ends) if len(ends) > 1 else {}
        elif stats.moved is not None:
            pending, read = reached.up_to(self.ends()), partial(self.read, batch.session)
            missing = boundary.ranges_through(read, self.source, self.schemas, self.name, pending, stats.moved)
        else:
            missing = {}
        # What was read on to may hold halves of its own.
        return MoreRecords(batch, missing, whole=not keys) if missing else None

    def with_records(self, needs: MoreRecords, known: Ledger) -> TopicBatch:
        """Read the records that a batch needs, and return it with them. ``known``: the table's ledger."""
        batch = needs.batch
        more = (records.select(batch.raw.columns) for _, records in self.read(batch.session, needs.ranges))
        raw = reduce(DataFrame.unionByName, more, batch.raw)
        profile = self.profile(raw)
        batch.outcome.reread += profile.rows - batch.profile.rows
        offsets = known.up_to(known.after(batch.offsets).after(needs.ranges).positions)
        return replace(batch, raw=raw, profile=profile, offsets=offsets, whole=needs.whole)
