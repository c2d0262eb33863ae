"""Kafka's side of a position: how far topics reach, and how far the lake has told that it has come."""

import logging
from collections.abc import Iterable
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from services.verify.errors import Unreachable

MIRROR_GROUP = "lakehouse.mirror"
ANSWER_SECONDS = 10.0

TopicPartitionKey = tuple[str, int]
Offsets = dict[TopicPartitionKey, int]

_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_SILENT = logging.getLogger("lakehouse.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def client_config(bootstrap: str) -> dict[str, Any]:
    """Configuration of a Kafka client that says nothing on standard error: what fails is raised."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None, "logger": _SILENT}


class KafkaOffsets:
    """Offsets of the topics of one source. Raises Unreachable when the broker doesn't answer."""

    def __init__(self, bootstrap: str, source: str, schemas: tuple[str, ...]) -> None:
        self._bootstrap = bootstrap
        self._prefixes = tuple(f"{source}.{schema}." for schema in schemas)
        self._admin = AdminClient(client_config(bootstrap))

    def partitions(self) -> list[TopicPartitionKey]:
        """Every partition of every captured table's topic."""
        try:
            topics = self._admin.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException as error:
            raise self._unreachable(error) from error
        names = sorted(name for name in topics if name.startswith(self._prefixes))
        return [(name, partition) for name in names for partition in sorted(topics[name].partitions)]

    def ends(self, partitions: Iterable[TopicPartitionKey]) -> Offsets:
        """The offset after the last committed one (markers of transactions count as offsets)."""
        return self._list(partitions, _LATEST)

    def starts(self, partitions: Iterable[TopicPartitionKey]) -> Offsets:
        """The first offset that is still held."""
        return self._list(partitions, _EARLIEST)

    def mirrored(self) -> Offsets:
        """What the mirror has told: every offset below these is visible in the lake."""
        request = [ConsumerGroupTopicPartitions(MIRROR_GROUP)]
        try:
            future = self._admin.list_consumer_group_offsets(request, request_timeout=ANSWER_SECONDS)[MIRROR_GROUP]
            found = future.result().topic_partitions
        except KafkaException as error:
            raise self._unreachable(error) from error
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}

    def _list(self, partitions: Iterable[TopicPartitionKey], spec: Any) -> Offsets:
        request = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        if not request:
            return {}
        try:
            futures = self._admin.list_offsets(
                request, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
            )
            return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}
        except KafkaException as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: KafkaException) -> Unreachable:
        return Unreachable("Kafka", self._bootstrap, error.args[0].str() if error.args else "")


def behind(ends: Offsets, starts: Offsets, mirrored: Offsets) -> Offsets:
    """Partition to the number of offsets that the lake still lacks; partitions that lack none are left out.

    A partition that holds nothing needs no position.
    """
    missing = {}
    for key, end in ends.items():
        start = starts.get(key, 0)
        if end > start and (lag := end - mirrored.get(key, start)) > 0:
            missing[key] = lag
    return missing
