"""How old the oldest record is that Kafka has and the lake doesn't show, by topic."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition

from pipelines.kafka.client import client_config
from services.stack.offsets import Offsets

PATIENCE_SECONDS = 3.0
# Of more partitions than this the ones that lack most are asked.
MOST_PARTITIONS = 200


class Pending:
    """Asks Kafka for single records. Used by one thread at a time."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                **client_config(bootstrap), "group.id": "lakehouse.console", "enable.auto.commit": "false",
                "isolation.level": "read_committed", "fetch.wait.max.ms": 20,
                "max.partition.fetch.bytes": 16_384, "queued.min.messages": 1,
            }
        )  # fmt: skip

    def oldest(self, lags: Offsets, reached: Mapping[tuple[str, int], int], starts: Offsets) -> dict[str, float]:
        """Return topic to seconds since 1970 at which Kafka got the first record that the lake doesn't show.

        ``lags``: partition to how much it lacks; those that lack nothing are left out. A topic of which no record came
        in time is left out as well. Raises KafkaException.
        """
        most = sorted(lags, key=lambda key: -lags[key])[:MOST_PARTITIONS]
        places = [TopicPartition(*key, max(reached.get(key, 0), starts.get(key, 0))) for key in most]
        if not places:
            return {}
        self._consumer.assign(places)
        found: dict[str, float] = {}
        try:
            waiting, ends = {(tp.topic, tp.partition) for tp in places}, time.monotonic() + PATIENCE_SECONDS
            while waiting and (left := ends - time.monotonic()) > 0:
                for message in self._consumer.consume(len(waiting), min(left, 0.5)):
                    error = message.error()
                    if error is not None:
                        raise KafkaException(error)
                    key = (str(message.topic()), int(message.partition() or 0))
                    kind, milliseconds = message.timestamp()
                    if key in waiting and kind != TIMESTAMP_NOT_AVAILABLE:
                        found[key[0]] = min(found.get(key[0], float("inf")), milliseconds / 1000)
                    if key in waiting:
                        waiting.discard(key)
                        self._consumer.pause([TopicPartition(*key)])
        finally:
            # Else they would still be paused when they are next assigned.
            self._consumer.resume(places)
            self._consumer.unassign()
        return found

    def close(self) -> None:
        """Leave Kafka."""
        self._consumer.close()


def by_topic(lags: Offsets, topics: Iterable[str]) -> dict[str, int]:
    """Return topic to how many offsets it lacks."""
    found = dict.fromkeys(topics, 0)
    for (topic, _), lag in lags.items():
        found[topic] = found.get(topic, 0) + lag
    return found
