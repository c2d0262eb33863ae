"""Intake: what a batch brings, by topic: its records, and what they hold."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.changes.topic_batch import CACHED_OFFSETS, cached, coalesced
from pipelines.dead_letters.waiting import WaitingKeys
from pipelines.kafka.expected import beginning, ending, expected_profile
from pipelines.kafka.profile import TopicProfile, profile
from pipelines.kafka.ranges import Ranges, non_empty, offset_count
from pipelines.kafka.read import read_ranges
from pipelines.mirror.table.mirror import TableMirror


@dataclass(frozen=True)
class Brought:
    """What a batch of so many ``offsets`` brings. ``topics``: those that have records, and what these hold."""

    batch: DataFrame
    offsets: int
    topics: Mapping[str, TopicProfile]
    kafka_bootstrap: str

    def seen(self, topic: str) -> TopicProfile:
        """What the topic's records hold."""
        return self.topics.get(topic) or TopicProfile(topic)

    def of(self, topic: str, planned: Ranges) -> DataFrame:
        """The topic's records: of what is kept, or else read once more by themselves."""
        if self.offsets <= CACHED_OFFSETS:
            return self.batch.where(F.col("topic") == topic)
        return coalesced(self.alone(topic, planned), offset_count(planned))

    def alone(self, topic: str, planned: Ranges) -> DataFrame:
        """The same, read by themselves, also once the batch is over."""
        if not offset_count(planned):
            return self.batch.sparkSession.createDataFrame([], self.batch.schema)
        return _read(self.batch, {topic: planned}, self.kafka_bootstrap)


class Intake:
    """``tables``: topic to its mirror, of those that have been met; ``audited``: topics of which nothing is assumed."""

    def __init__(
        self, kafka_bootstrap: str, tables: Mapping[str, TableMirror], audited: Collection[str], parking: WaitingKeys
    ) -> None:
        self._kafka_bootstrap, self._tables, self._parking = kafka_bootstrap, tables, parking
        self._audited = frozenset(audited)

    @contextmanager
    def take(self, records: DataFrame, planned: Mapping[str, Ranges], taken: Mapping[str, Ranges]) -> Iterator[Brought]:
        """What these ranges bring to the topics that are ``taken``, kept for the block if it is little. ``records``:
        those of all ranges that were ``planned``, which are read if nothing else is wanted.
        """
        wanted = _some(taken)
        offsets = sum(map(offset_count, wanted.values()))
        assumed = self._assumed(taken)
        rest = {topic: by for topic, by in wanted.items() if topic not in assumed}
        as_planned = not wanted or wanted == _some(planned)
        reading = coalesced(records if as_planned else self._again(records, wanted), offsets)
        # What a single table reads once needn't be kept.
        with nullcontext(reading) if len(assumed) == 1 and not rest else cached(reading, offsets) as batch:
            topics = assumed | (self._looked_at(batch, offsets, rest) if rest else {})
            yield Brought(batch, offsets, topics, self._kafka_bootstrap)

    def _assumed(self, planned: Mapping[str, Ranges]) -> dict[str, TopicProfile]:
        """What the topics hold that most likely go on as they were, which needn't be looked at."""
        likely = self._tables.keys() & planned.keys() - self._audited
        # Of letters that are open it is asked which of the records wait behind them.
        found = {t: self._tables[t].expects(planned[t]) for t in likely if self._parking.of(t) is None}
        return {topic: seen for topic, seen in found.items() if seen is not None}

    def _looked_at(self, batch: DataFrame, offsets: int, ranges: Mapping[str, Ranges]) -> dict[str, TopicProfile]:
        """What these ranges of the batch hold. Of a topic that has many records, most likely all alike, few are looked
        at.
        """
        if offsets <= CACHED_OFFSETS:
            return profile(batch.where(F.col("topic").isin(*ranges)))
        tried = {t: by for t, by in ranges.items() if offset_count(by) > CACHED_OFFSETS and t not in self._audited}
        seen: dict[str, TopicProfile] = {}
        if tried:
            parts = ({t: part(by) for t, by in tried.items()} for part in (beginning, ending))
            sampled = profile(reduce(DataFrame.unionByName, (self._again(batch, by) for by in parts)))
            guessed = {t: expected_profile(sampled.get(t), by) for t, by in tried.items()}
            seen = {topic: found for topic, found in guessed.items() if found is not None}
        left = {topic: by for topic, by in ranges.items() if topic not in seen}
        return seen | (profile(self._again(batch, left)) if left else {})

    def _again(self, batch: DataFrame, ranges: Mapping[str, Ranges]) -> DataFrame:
        return _read(batch, ranges, self._kafka_bootstrap)


def _some(ranges: Mapping[str, Ranges]) -> dict[str, Ranges]:
    """Those that aren't empty, of the topics that have any."""
    return {topic: left for topic, by in ranges.items() if (left := non_empty(by))}


def _read(batch: DataFrame, ranges: Mapping[str, Ranges], kafka_bootstrap: str) -> DataFrame:
    """These ranges of the batch, read once more."""
    return read_ranges(batch.sparkSession, kafka_bootstrap, ranges).select(batch.columns)
