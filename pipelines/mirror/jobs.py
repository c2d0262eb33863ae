"""Mirror one table's share of a batch, in one of the ways in which that is done."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from pipelines.changes.topic_batch import TopicBatch, TopicOutcome, cached, coalesced
from pipelines.kafka.profile import TopicProfile, profile_records
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.limits import Limits
from pipelines.mirror.intake import BatchRecords
from pipelines.mirror.table.mirror import TableMirror
from pipelines.spark.sessions import Sessions


class TableJobs:
    """The ways to mirror a table's share of a batch. Safe to use from several threads, of a table by one at a time.

    ``mirror_of``: gives a topic's mirror, made if it is met for the first time.
    """

    def __init__(self, sessions: Sessions, mirror_of: Callable[[str], TableMirror], limits: Limits) -> None:
        self._sessions, self._mirror_of, self._limits = sessions, mirror_of, limits

    def looked_at(
        self, raw: DataFrame, profile: TopicProfile, planned: Ranges, number: int, altered: bool
    ) -> TopicOutcome:
        """Mirror records that were looked at: ``profile`` says what they hold."""
        mirror = self._mirror_of(profile.topic)
        with self._sessions.lend() as session:
            outcome = TopicOutcome(profile.topic, rows=profile.rows)
            return mirror.mirror(TopicBatch(raw, profile, planned, number, session, outcome), altered)

    def plain(self, batch: BatchRecords, topic: str, planned: Ranges, number: int, altered: bool) -> TopicOutcome:
        """Mirror what most likely needs no look; if it does, it is looked at.

        ``altered``: the schema log has news of the table, which is met for the first time.
        """
        mirror, outcome = self._mirror_of(topic), TopicOutcome(topic)
        with self._sessions.lend() as session:
            if not mirror.is_open:
                ranges = dict.fromkeys(planned, (0, 0))
                nothing = TopicBatch(batch.none(), TopicProfile(topic), ranges, number, session, outcome)
                mirror.open(nothing, altered)
            if mirror.is_plain(planned) and mirror.mirror_plainly(planned, number, session, outcome):
                return outcome
            failed = outcome.plan_failed
        with self._alone(batch, topic, planned) as records:
            profile = profile_records(records).get(topic, TopicProfile(topic))
            # What it was held for before this process may lie before a batch that has nothing of it.
            if profile.rows or mirror.lacks(planned):
                return replace(self.looked_at(records, profile, planned, number, False), plan_failed=failed)
        mirror.pass_over(planned)
        return TopicOutcome(topic, plan_failed=failed)

    def warm(self, mirrors: Iterable[TableMirror], until: float) -> None:
        """Make ready what small batches of these tables will need, as long as it is before ``until``."""
        with self._sessions.lend() as session:
            for mirror in mirrors:
                if time.monotonic() < until:
                    mirror.warm(session)

    def beside(
        self, batch: BatchRecords, topic: str, planned: Ranges, number: int, altered: bool
    ) -> Callable[[SparkSession], TopicOutcome]:
        """Return what mirrors a table beside the batches.

        It reads its records by itself, for the batch's are gone once that ends.
        """
        mirror, profile = self._mirror_of(topic), batch.profile(topic)

        def alone(session: SparkSession) -> TopicOutcome:
            with self._alone(batch, topic, planned) as records:
                outcome = TopicOutcome(topic, rows=profile.rows)
                return mirror.mirror(TopicBatch(records, profile, planned, number, session, outcome), altered)

        return alone

    @contextmanager
    def _alone(self, batch: BatchRecords, topic: str, planned: Ranges) -> Iterator[DataFrame]:
        offsets = offset_count(planned)
        with cached(coalesced(batch.alone(topic, planned), offsets, self._limits), offsets, self._limits) as records:
            yield records
