"""Publish how far a pipeline has come, for lag tools and ``lakehouse wait``, as a consumer group's offsets.

Written after a batch is in the lake. Of a table that is held (see :mod:`pipelines.progress.holds`) it is the position
that the table has, and the offsets' metadata says why; of one that is let go of, the end. It is never used to resume:
that is the ledger's.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.stdlib import BoundLogger

from pipelines.progress.holds import AWAITS, GIVEN_UP, RETRIED, Hold

EndOffsets = Mapping[str, Mapping[int, int]]
ProgressOffsets = dict[tuple[str, int], tuple[int, str]]

GROUP, STREAMS_GROUP = "lakehouse.mirror", "lakehouse.streams"
TIMEOUT_SECONDS = 10
# Brokers refuse metadata of more than 4096 bytes.
METADATA_CHARACTERS = 1000


def progress_offsets(
    end_offsets: EndOffsets, holds: Mapping[str, Hold], waiting: Mapping[str, Mapping[int, int]] | None = None
) -> ProgressOffsets:
    """Return topic and partition to the offset to publish and its metadata.

    ``end_offsets``: of a batch whose tables are committed, held or ``waiting`` for a later one (topic to how far they
    are), topic to partition to the offset after the last.
    """
    positions: ProgressOffsets = {}
    lacking = {topic: hold.positions for topic, hold in holds.items() if not hold.let_go}
    left_out = {**(waiting or {}), **lacking}
    for topic, by_partition in end_offsets.items():
        why = holds[topic].told[:METADATA_CHARACTERS] if topic in holds else ""
        for partition, end in by_partition.items():
            reached = min(end, left_out[topic].get(partition, 0)) if topic in left_out else end
            positions[topic, partition] = (reached, why)
    return positions


def retries(published: Iterable[TopicPartition]) -> ProgressOffsets:
    """Return what to publish of the tables that were held for a person to mend, now that they are tried again."""
    told = (RETRIED, GIVEN_UP, AWAITS)
    return {
        (each.topic, each.partition): (each.offset, f"{RETRIED}{each.metadata}"[:METADATA_CHARACTERS])
        for each in published
        if each.metadata and not each.metadata.startswith(told)
    }


class ProgressPublisher:
    """Publishes positions. A broker that doesn't answer is logged; the stream goes on."""

    def __init__(self, kafka_bootstrap: str, log: BoundLogger, group: str = GROUP) -> None:
        self._kafka_bootstrap, self._group = kafka_bootstrap, group
        self._admin = self._connect()
        self._log = log
        self._published: ProgressOffsets = {}

    def publish_retries(self) -> None:
        """Publish of what an earlier process held that it is tried again soon: this one hasn't tried it yet."""
        try:
            request = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group)], request_timeout=TIMEOUT_SECONDS
            )
            found = request[self._group].result().topic_partitions
        except KafkaException as error:
            self._log.warning("position_not_published", error=str(error))
            return
        self.publish(retries(found))

    def publish(self, positions: ProgressOffsets) -> None:
        """Publish ``positions``, unless they are what was published last."""
        if not positions or positions == self._published:
            return
        partitions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in positions.items()
        ]
        try:
            request = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group, partitions)], request_timeout=TIMEOUT_SECONDS
            )
            request[self._group].result()
        except KafkaException as error:
            self._log.warning("position_not_published", error=str(error))
            # A client that was asking when the broker was killed may never find the group's coordinator again.
            self._admin = self._connect()
            return
        self._published = positions

    def _connect(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._kafka_bootstrap})
