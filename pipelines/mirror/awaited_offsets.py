"""Awaited offsets: how far somebody waits for the lake to come, as a consumer group's offsets.

The mirror leaves no table out of a batch, however fresh it need be, that isn't as far as that.
"""

from collections.abc import Collection, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from pipelines.kafka.client import ANSWER_SECONDS, TopicPartitionKey, committed_offsets

GROUP = "lakehouse.wanted"


def await_offsets(admin: AdminClient, ends: Mapping[TopicPartitionKey, int]) -> None:
    """Tell the mirror that everything below these offsets is waited for. Raises KafkaException."""
    partitions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
    request = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(GROUP, partitions)], request_timeout=ANSWER_SECONDS
    )
    request[GROUP].result()


class AwaitedOffsets:
    """The offsets that somebody waits for. None, where the broker doesn't answer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def beyond(self, positions: Mapping[str, Mapping[int, int]]) -> Collection[str]:
        """Return the topics of which more is waited for than up to these positions (topic to partition to offset)."""
        partitions = [(topic, partition) for topic, by in positions.items() for partition in by]
        try:
            found = committed_offsets(self._bootstrap, GROUP, partitions)
        except KafkaException:
            return set()
        return {at.topic for at in found if at.offset > positions[at.topic][at.partition]}
