"""Kafka's side of a position: how far topics reach, and how far the lake has told that it has come."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipelines.kafka.client import (
    ANSWER_SECONDS,
    EARLIEST,
    LATEST,
    Answer,
    TopicPartitionKey,
    ask,
    client_config,
    committed_offsets,
    list_offsets,
    topic_id,
)
from pipelines.mirror.awaited_offsets import await_offsets
from pipelines.progress.publish import GROUP, STREAMS_GROUP
from pipelines.sources.base.database import SourceTopics
from services.stack.endpoints import StackSettings
from services.stack.errors import Unreachable
from services.stack.source import topics_of

Offsets = dict[TopicPartitionKey, int]


class KafkaOffsets:
    """Offsets of the topics of one source. Raises Unreachable when the broker doesn't answer."""

    def __init__(self, bootstrap: str, topics: SourceTopics) -> None:
        self._bootstrap, self._prefixes, self._schema_log = bootstrap, topics.prefixes, topics.schema_topic
        self._admin = AdminClient(client_config(bootstrap))

    def partitions(self, schema_log: bool = False) -> list[TopicPartitionKey]:
        """Return every partition of every captured table's topic.

        At will those of the topic that tells of schema changes, too.
        """
        topics = self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS).topics)
        names = sorted(n for n in topics if n.startswith(self._prefixes) or (schema_log and n == self._schema_log))
        return [(name, partition) for name in names for partition in sorted(topics[name].partitions)]

    def partitions_of(self, names: Collection[str]) -> list[TopicPartitionKey]:
        """Return every partition of these topics, of those that there are."""
        topics = self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS).topics)
        return [
            (n, partition) for n in sorted(set(names) & topics.keys()) for partition in sorted(topics[n].partitions)
        ]

    def ends(self, partitions: Iterable[TopicPartitionKey]) -> Offsets:
        """Return the offset after the last committed one (markers of transactions count as offsets)."""
        return self._list(partitions, LATEST)

    def ends_of(self, topic: str) -> dict[int, int]:
        """Return the same of each partition of a captured table's topic; of another topic nothing."""
        found = self.ends(key for key in self.partitions() if key[0] == topic)
        return {partition: end for (_, partition), end in sorted(found.items())}

    def ends_by_partition(self, topic: str) -> dict[int, int]:
        """Return partition to the offset after the last committed one, of any topic that there is."""
        return {partition: end for (_, partition), end in sorted(self.ends(self.partitions_of([topic])).items())}

    def starts(self, partitions: Iterable[TopicPartitionKey]) -> Offsets:
        """Return the first offset that is still held."""
        return self._list(partitions, EARLIEST)

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        """Return topic to Kafka's own name for it, of those that there are."""
        there = self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS).topics)
        return {name: self._ask(partial(topic_id, self._bootstrap, name)) for name in sorted(set(names) & there.keys())}

    def told(self) -> tuple[Offsets, dict[str, str]]:
        """Return what the mirror has told: the offsets below which everything is visible in the lake, and what is held.

        That is the topics whose tables it can't bring on, and why.
        """
        return self._told(GROUP, self.partitions(schema_log=True))

    def streams_told(self, names: Collection[str]) -> tuple[Offsets, dict[str, str]]:
        """Return the same of the topics of event streams, which their own process has told."""
        return self._told(STREAMS_GROUP, self.partitions_of(names))

    def _told(self, group: str, asked: list[TopicPartitionKey]) -> tuple[Offsets, dict[str, str]]:
        found = self._ask(lambda: committed_offsets(self._bootstrap, group, asked))
        told = [tp for tp in found if tp.offset >= 0]
        reached = {(tp.topic, tp.partition): tp.offset for tp in told}
        return reached, {tp.topic: tp.metadata for tp in told if tp.metadata}

    def mirrored(self) -> Offsets:
        """Return the offsets below which everything is visible in the lake."""
        return self.told()[0]

    def held(self) -> dict[str, str]:
        """Return the topics whose tables the mirror can't bring on, and why."""
        return self.told()[1]

    def want(self, ends: Offsets) -> None:
        """Tell the mirror that everything below ``ends`` is waited for."""
        self._ask(lambda: await_offsets(self._admin, ends))

    def _list(self, partitions: Iterable[TopicPartitionKey], spec: Any) -> Offsets:
        return self._ask(lambda: list_offsets(self._admin, partitions, spec))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        try:
            return ask(question)
        except KafkaException as error:
            reason = error.args[0].str() if error.args else ""
            raise Unreachable("Kafka", self._bootstrap, reason) from error


def kafka(settings: StackSettings) -> KafkaOffsets:
    """Return the offsets of this source's topics."""
    return KafkaOffsets(settings.kafka_bootstrap, topics_of(settings))


def behind(ends: Offsets, starts: Offsets, mirrored: Offsets) -> Offsets:
    """Return partition to the number of offsets that the lake still lacks; partitions that lack none are left out.

    A partition that holds nothing needs no position.
    """
    missing = {}
    for key, end in ends.items():
        start = starts.get(key, 0)
        if end > start and (lag := end - mirrored.get(key, start)) > 0:
            missing[key] = lag
    return missing
