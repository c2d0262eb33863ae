"""Deleting records of topics up to an offset, once everybody has read these."""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from pipelines.kafka.client import ANSWER_SECONDS, EARLIEST, LATEST, ask, client_config, list_offsets
from services.operations.erase.errors import CannotErase
from services.stack.errors import Unreachable

# The platform's own groups: they have read what the lake has.
OWN = "lakehouse."
# The broker looks for files to delete so often.
CHECK_SECONDS = 300.0


class Topics:
    """Records of topics. Raises Unreachable."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient(client_config(bootstrap))

    def held(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return partition to the first offset that is held, and the one after the last; {}: there is no such topic."""
        try:
            found = ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS).topics)
            if topic not in found:
                return {}
            keys = [(topic, partition) for partition in found[topic].partitions]
            starts = ask(lambda: list_offsets(self._admin, keys, EARLIEST))
            ends = ask(lambda: list_offsets(self._admin, keys, LATEST))
        except KafkaException as error:
            raise self._unreachable(error) from error
        return {key[1]: (starts[key], ends[key]) for key in sorted(keys)}

    def check_read(self, topic: str, ends: Mapping[int, int]) -> None:
        """Raise CannotErase if a consumer group of somebody else's hasn't read a topic up to these offsets."""
        try:
            groups = ask(lambda: self._admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result())
            late = []
            for name in sorted(group.group_id for group in groups.valid if not group.group_id.startswith(OWN)):
                left = sum(
                    max(0, ends[p.partition] - p.offset) for p in self._committed(name, topic, ends) if p.offset >= 0
                )
                late += [f"{name} ({left:,} records)"] if left else []
        except KafkaException as error:
            raise self._unreachable(error) from error
        if late:
            raise CannotErase(
                f"{topic} has records that other consumers haven't read yet, and wouldn't see any more:"
                f" {', '.join(late)}. Let them catch up, or delete these groups; then run this again."
            )

    def delete(self, topic: str, ends: Mapping[int, int]) -> int:
        """Delete the records below these offsets: how many offsets went."""
        before = self.held(topic)
        gone = {p: end for p, end in ends.items() if p in before and before[p][0] < end}
        try:
            for future in self._admin.delete_records(
                [TopicPartition(topic, p, end) for p, end in gone.items()], request_timeout=ANSWER_SECONDS
            ).values():
                future.result()
        except KafkaException as error:
            raise self._unreachable(error) from error
        return sum(end - before[p][0] for p, end in gone.items())

    def disk_seconds(self, topic: str) -> float | None:
        """Return how long deleted records stay in the broker's files at most; None: perhaps for ever.

        Until the broker has begun a newer file and closed this, or until all of it is older than the topic keeps; it
        may never begin a newer one.
        """
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            found = self._admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource].result()
        except KafkaException as error:
            raise self._unreachable(error) from error
        segment, kept = (int(found[name].value) for name in ("segment.ms", "retention.ms"))
        return None if kept < 0 else max(segment, kept) / 1000 + CHECK_SECONDS

    def _committed(self, group: str, topic: str, ends: Mapping[int, int]) -> list[TopicPartition]:
        consumer = Consumer(client_config(self._bootstrap) | {"group.id": group, "enable.auto.commit": False})
        try:
            asked = [TopicPartition(topic, partition) for partition in ends]
            return ask(lambda: consumer.committed(asked, timeout=ANSWER_SECONDS))
        finally:
            consumer.close()

    def _unreachable(self, error: KafkaException) -> Unreachable:
        return Unreachable("Kafka", self._bootstrap, error.args[0].str() if error.args else "")
