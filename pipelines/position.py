"""Position: how far the mirror has come, for lag tools and ``lakehouse wait``, as a consumer group's offsets.

Written after a batch is whole in the lake. It is never used to resume: that is the ledger's.
"""

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.stdlib import BoundLogger

EndOffsets = dict[str, dict[str, int]]

GROUP = "lakehouse.mirror"
TIMEOUT_SECONDS = 10


class PositionPublisher:
    """Publishes end offsets of finished batches. A broker that doesn't answer is logged; the stream goes on."""

    def __init__(self, kafka_bootstrap: str, log: BoundLogger) -> None:
        self._kafka_bootstrap = kafka_bootstrap
        self._admin = self._connect()
        self._log = log
        self._published: EndOffsets | None = None

    def publish(self, end_offsets: EndOffsets | None) -> None:
        """``end_offsets``: topic to partition to the offset after the last, as Spark's progress gives them."""
        if not end_offsets or end_offsets == self._published:
            return
        partitions = [
            TopicPartition(topic, int(partition), int(offset))
            for topic, by_partition in end_offsets.items()
            for partition, offset in by_partition.items()
        ]
        try:
            request = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(GROUP, partitions)], request_timeout=TIMEOUT_SECONDS
            )
            request[GROUP].result()
        except KafkaException as error:
            self._log.warning("position_not_published", error=str(error))
            # A client that was asking when the broker was killed may never find the group's coordinator again.
            self._admin = self._connect()
            return
        self._published = end_offsets

    def _connect(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._kafka_bootstrap})
