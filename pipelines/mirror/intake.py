"""Take in what a batch brings, by topic: its records, and what they hold."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.changes.topic_batch import cached, coalesced
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.kafka.expected import beginning, ending, expected_profile
from pipelines.kafka.profile import TopicProfile, profile_records
from pipelines.kafka.ranges import Ranges, non_empty, offset_count
from pipelines.kafka.read import read_ranges
from pipelines.limits import Limits
from pipelines.mirror.table.mirror import TableMirror


@dataclass(frozen=True)
class BatchRecords:
    """The records that a batch of so many ``offsets`` brings.

    ``topics``: those that have records, and what these hold.
    """

    batch: DataFrame
    offsets: int
    topics: Mapping[str, TopicProfile]
    kafka_bootstrap: str
    limits: Limits

    def profile(self, topic: str) -> TopicProfile:
        """Return what the topic's records hold."""
        return self.topics.get(topic) or TopicProfile(topic)

    def of(self, topic: str, planned: Ranges) -> DataFrame:
        """Return the topic's records: from what is cached, or else read once more by themselves."""
        if not self.limits.is_many(self.offsets):
            return self.batch.where(F.col("topic") == topic)
        return coalesced(self.alone(topic, planned), offset_count(planned), self.limits)

    def none(self) -> DataFrame:
        """Return no record, in the records' columns."""
        return self.batch.sparkSession.createDataFrame([], self.batch.schema)

    def alone(self, topic: str, planned: Ranges) -> DataFrame:
        """Return the topic's records, read by themselves, also once the batch is over."""
        if not offset_count(planned):
            return self.none()
        return _read(self.batch, {topic: planned}, self.kafka_bootstrap)


class Intake:
    """Takes in what a batch brings.

    ``tables``: topic to its mirror, of those that have been met; ``audited``: topics of which nothing is expected.
    """

    def __init__(
        self,
        kafka_bootstrap: str,
        tables: Mapping[str, TableMirror],
        audited: Collection[str],
        waiting: WaitingKeys,
        limits: Limits,
    ) -> None:
        self._kafka_bootstrap, self._tables, self._waiting = kafka_bootstrap, tables, waiting
        self._limits = limits
        self._audited = frozenset(audited)

    @contextmanager
    def take(
        self, records: DataFrame, planned: Mapping[str, Ranges], by_topic: Mapping[str, Ranges]
    ) -> Iterator[BatchRecords]:
        """Give what the ranges ``by_topic`` bring, cached for the block if it is little.

        ``records``: those of all ranges that were ``planned``, which are read if nothing else is due.
        """
        due = _non_empty_topics(by_topic)
        offsets = sum(map(offset_count, due.values()))
        expected = self._expected(by_topic)
        rest = {topic: by for topic, by in due.items() if topic not in expected}
        as_planned = not due or due == _non_empty_topics(planned)
        reading = coalesced(records if as_planned else self._read_again(records, due), offsets, self._limits)
        # What a single table reads once needn't be kept.
        with (
            nullcontext(reading) if len(expected) == 1 and not rest else cached(reading, offsets, self._limits) as batch
        ):
            topics = expected | (self._profile(batch, offsets, rest) if rest else {})
            yield BatchRecords(batch, offsets, topics, self._kafka_bootstrap, self._limits)

    def _expected(self, planned: Mapping[str, Ranges]) -> dict[str, TopicProfile]:
        """Return what the topics hold that most likely go on as they were, which needn't be profiled."""
        likely = self._tables.keys() & planned.keys() - self._audited
        # Of letters that are open it is asked which of the records wait behind them.
        found = {t: self._tables[t].expects(planned[t]) for t in likely if self._waiting.of(t) is None}
        return {topic: profile for topic, profile in found.items() if profile is not None}

    def _profile(self, batch: DataFrame, offsets: int, ranges: Mapping[str, Ranges]) -> dict[str, TopicProfile]:
        """Profile these ranges of the batch.

        Of a topic that has many records, most likely all alike, few are looked at.
        """
        if not self._limits.is_many(offsets):
            return profile_records(batch.where(F.col("topic").isin(*ranges)))
        large = {t: by for t, by in ranges.items() if self._limits.is_many(offset_count(by)) and t not in self._audited}
        profiles: dict[str, TopicProfile] = {}
        if large:
            parts = ({t: part(by) for t, by in large.items()} for part in (beginning, ending))
            sampled = profile_records(reduce(DataFrame.unionByName, (self._read_again(batch, by) for by in parts)))
            expected = {t: expected_profile(sampled.get(t), by) for t, by in large.items()}
            profiles = {topic: found for topic, found in expected.items() if found is not None}
        left = {topic: by for topic, by in ranges.items() if topic not in profiles}
        return profiles | (profile_records(self._read_again(batch, left)) if left else {})

    def _read_again(self, batch: DataFrame, ranges: Mapping[str, Ranges]) -> DataFrame:
        return _read(batch, ranges, self._kafka_bootstrap)


def _non_empty_topics(ranges: Mapping[str, Ranges]) -> dict[str, Ranges]:
    """Return the ranges that aren't empty, of the topics that have any."""
    return {topic: left for topic, by in ranges.items() if (left := non_empty(by))}


def _read(batch: DataFrame, ranges: Mapping[str, Ranges], kafka_bootstrap: str) -> DataFrame:
    """Read these ranges of the batch once more."""
    return read_ranges(batch.sparkSession, kafka_bootstrap, ranges).select(batch.columns)
