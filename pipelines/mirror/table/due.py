"""What of a table's topic is due, by the table's ledger: what comes before a batch, then the batch itself."""

from collections.abc import Generator, Iterator
from dataclasses import replace

from pyspark.sql import DataFrame

from pipelines.changes.topic_batch import TopicBatch, cached, coalesced
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.kafka.read import within
from pipelines.lake.catalog import Lake
from pipelines.ledger.resyncs import Resync
from pipelines.ledger.table_ledger import TableLedger
from pipelines.limits import Limits
from pipelines.mirror.table.key_changes import KeyChanges
from pipelines.mirror.table.topic import Topic


class DueBatches:
    """The batches of one table that are due. Used by one thread at a time."""

    def __init__(self, topic: Topic, ledger: TableLedger, key_changes: KeyChanges, limits: Limits) -> None:
        self._topic, self._ledger, self._key_changes, self._limits = topic, ledger, key_changes, limits

    def batches(self, planned: TopicBatch, resync: Resync | None) -> Generator[TopicBatch, None, None]:
        """Yield what is to be committed, in order. Each holds until the next one is asked for.

        ``resync``: the newest one of the topic.
        """
        for older in self._key_changes.follow(planned, resync):
            yield from self._reread(older, resync)
        missing = self._ledger.reached.skipped(planned.offsets)
        if planned.profile.expected and (missing or not self._ledger.is_next(planned.profile.ranges)):
            planned = self._topic.profile_again(planned)
        skipped = list(self._topic.read(planned.session, missing))
        last_part = skipped.pop() if skipped and self._topic.fits(skipped[-1][0], planned.profile.rows) else None
        for ranges, records in skipped:
            yield from self._reread(replace(planned, raw=records, offsets=ranges), resync)
        if last_part is None:
            yield from self._split_at_resync(planned, resync)
        else:
            yield from self._join(planned, *last_part, resync)

    def _reread(self, batch: TopicBatch, resync: Resync | None) -> Iterator[TopicBatch]:
        """Yield a batch that was read again from Kafka."""
        with cached(batch.raw, offset_count(batch.offsets), self._limits) as records:
            profile = self._topic.profile(records)
            batch.outcome.reread += profile.rows
            yield from self._split_at_resync(replace(batch, raw=records, profile=profile), resync)
        self._ledger.load(Lake(batch.session))

    def _join(
        self, planned: TopicBatch, skipped: Ranges, records: DataFrame, resync: Resync | None
    ) -> Iterator[TopicBatch]:
        """Yield ``planned`` and what comes right before it as one batch."""
        offsets, limits = offset_count(skipped), self._limits
        with cached(coalesced(records.select(planned.raw.columns), offsets, limits), offsets, limits) as before:
            profile = self._topic.profile(before)
            planned.outcome.reread += profile.rows
            ends = {partition: end for partition, (_, end) in planned.offsets.items()}
            reached = self._ledger.reached.up_to(ends)
            raw = coalesced(before.unionByName(planned.raw), profile.rows + planned.profile.rows, limits)
            yield from self._split_at_resync(
                replace(planned, raw=raw, profile=profile + planned.profile, offsets=reached), resync
            )

    def _split_at_resync(self, batch: TopicBatch, resync: Resync | None) -> Iterator[TopicBatch]:
        """Yield all of ``batch``, in two where a resync begins among it."""
        if resync is None or self._ledger.table is None or self._ledger.known.resync == resync.id:
            yield batch
            return
        batch = self._topic.profile_again(batch) if batch.profile.expected else batch
        first, rest = resync.split(batch.offsets)
        if first:
            yield self._cut(batch, first) if rest else batch
        if self._ledger.reached.reaches(resync.start):
            self._ledger.commit_state(resync.begun(self._ledger.reached), batch.batch)
        if rest:
            yield self._cut(batch, rest) if first else batch

    def _cut(self, batch: TopicBatch, ranges: Ranges) -> TopicBatch:
        raw = batch.raw.where(within(ranges))
        return replace(batch, raw=raw, profile=self._topic.profile(raw), offsets=ranges)
