"""Read from Kafka what a table lacks of its topic, where that is more than the stream is going to read.

That is so when the table was dropped or rolled back, or when the stream's checkpoint is newer than the table.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import IsolationLevel, KafkaException, Message
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import RetryBatch
from pipelines.kafka import worker_records
from pipelines.kafka.checkpoint import TopicOffsets
from pipelines.kafka.client import (
    ANSWER_SECONDS,
    EARLIEST,
    LATEST,
    TopicPartitionKey,
    admin_client,
    ask,
    list_offsets,
    partitions_of,
    read_range,
    stable_ends,
    topic_id,
)
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.kafka.read import read_ranges


class TopicReader:
    """Reads ranges of topics anew, ``at_once`` offsets at a time."""

    def __init__(self, kafka_bootstrap: str, at_once: int) -> None:
        self._kafka_bootstrap, self.at_once = kafka_bootstrap, at_once

    def read(
        self, session: SparkSession, topic: str, ranges: Ranges, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """Yield ``ranges`` in parts, each with its raw records, in order; or all as one, if ``whole``."""
        if not ranges:
            return
        for span in [ranges] if whole else split_ranges(ranges, self.at_once):
            yield span, read_ranges(session, self._kafka_bootstrap, {topic: span})

    def peek(self, topic: str, ranges: Ranges) -> Iterator[Message]:
        """Yield the records of a few offsets, without Spark. Raises RetryBatch."""
        with _answering(self._kafka_bootstrap):
            yield from read_range(self._kafka_bootstrap, topic, ranges)

    def ends(self, topic: str) -> dict[int, int]:
        """Return partition to the offset after the last record that the topic has now. Raises RetryBatch."""
        with _answering(self._kafka_bootstrap):
            return stable_ends(self._kafka_bootstrap, topic)

    def topic_id(self, topic: str) -> str:
        """Return Kafka's own name for the topic that there is now. Raises RetryBatch."""
        with _answering(self._kafka_bootstrap):
            return topic_id(self._kafka_bootstrap, topic)

    def prepared(self, session: SparkSession, timed: bool = False) -> DataFrame:
        """Return the records of what a run of a plan is asked for (:mod:`pipelines.kafka.worker_records`).

        ``timed``: with their ``timestamp``.
        """
        return worker_records.records(session, self._kafka_bootstrap, timed)

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic; none: there is no such topic. Raises RetryBatch."""
        with _answering(self._kafka_bootstrap):
            return partitions_of(self._kafka_bootstrap, topic)

    def ask(self, topic: str, ranges: Ranges) -> str:
        """Return what to ask a run for, so that it is of these ranges."""
        return worker_records.ask(topic, ranges)

    def present_ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Return partition to the offset after the last record that may be read now. Raises RetryBatch."""
        with _answering(self._kafka_bootstrap):
            found = ask(
                lambda: list_offsets(admin_client(self._kafka_bootstrap), [(topic, p) for p in partitions], LATEST)
            )
        return {partition: end for (_, partition), end in found.items()}

    def lost(self, topic: str, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """Return what of ``ranges`` Kafka doesn't store any more.

        That is partition to first offset and the first that is stored. Raises RetryBatch if Kafka doesn't answer.
        """
        earliest = _earliest(self._kafka_bootstrap, [(topic, partition) for partition in ranges])
        return non_empty({partition: (start, earliest[topic, partition]) for partition, (start, _) in ranges.items()})


def is_outrun(positions: TopicOffsets, kafka_bootstrap: str) -> bool:
    """Return whether Kafka can't go on from these positions. Raises RetryBatch if it doesn't answer.

    It has lost records from there on, ends before, or has no such topic.
    """
    flat = {(topic, partition): offset for topic, by in positions.items() for partition, offset in by.items()}
    admin = admin_client(kafka_bootstrap)
    with _answering(kafka_bootstrap):
        topics = ask(lambda: admin.list_topics(timeout=ANSWER_SECONDS).topics)
        if any(topic not in topics or partition not in topics[topic].partitions for topic, partition in flat):
            return True
        latest = ask(lambda: list_offsets(admin, flat, LATEST, IsolationLevel.READ_UNCOMMITTED))
    earliest = _earliest(kafka_bootstrap, flat)
    return any(not earliest[key] <= offset <= latest[key] for key, offset in flat.items())


def backlog(positions: TopicOffsets, pattern: str, kafka_bootstrap: str) -> int:
    """Return how many offsets lie between these positions and the ends of their topics.

    They are counted from what Kafka still stores, of the topics whose names have ``pattern``. Raises RetryBatch if it
    doesn't answer.
    """
    admin = admin_client(kafka_bootstrap)
    with _answering(kafka_bootstrap):
        topics = ask(lambda: admin.list_topics(timeout=ANSWER_SECONDS).topics)
        keys = [(name, p) for name, topic in topics.items() if re.search(pattern, name) for p in topic.partitions]
        ends = ask(lambda: list_offsets(admin, keys, LATEST))
    earliest = _earliest(kafka_bootstrap, keys)
    return sum(max(0, end - max(earliest[t, p], positions.get(t, {}).get(p, 0))) for (t, p), end in ends.items())


def _earliest(kafka_bootstrap: str, partitions: Iterable[TopicPartitionKey]) -> dict[TopicPartitionKey, int]:
    admin = admin_client(kafka_bootstrap)
    with _answering(kafka_bootstrap):
        return ask(lambda: list_offsets(admin, partitions, EARLIEST))


@contextmanager
def _answering(kafka_bootstrap: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise RetryBatch(f"Kafka doesn't answer at {kafka_bootstrap}: {error}") from error


def split_ranges(ranges: Ranges, at_once: int) -> Iterator[Ranges]:
    """Yield ``ranges`` in parts of about ``at_once`` offsets, all partitions advancing alike."""
    total = sum(end - start for start, end in ranges.values())
    count = -(-total // at_once)
    for i in range(count):
        cut = {
            p: (start + (end - start) * i // count, start + (end - start) * (i + 1) // count)
            for p, (start, end) in ranges.items()
        }
        yield non_empty(cut)
