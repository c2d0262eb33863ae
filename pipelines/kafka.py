"""Asking Kafka about offsets: what every client here has in common."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

ANSWER_SECONDS = 10.0
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

# What a broker answers of a topic just made, or while a partition or a group moves.
_PASSING = {
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}  # fmt: skip

TopicPartitionKey = tuple[str, int]
Answer = TypeVar("Answer")

_SILENT = logging.getLogger("lakehouse.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def client_config(bootstrap: str) -> dict[str, Any]:
    """Configuration of a Kafka client that says nothing on standard error: what fails is raised."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None, "logger": _SILENT}


def ask(question: Callable[[], Answer]) -> Answer:
    """The answer to ``question``; what will pass by itself is asked again for a while. Raises KafkaException."""
    again = Retrying(
        retry=retry_if_exception(_is_passing), stop=stop_after_delay(ANSWER_SECONDS),
        wait=wait_exponential(0.1, max=1), reraise=True,
    )  # fmt: skip
    return again(question)


def list_offsets(
    admin: AdminClient, partitions: Iterable[TopicPartitionKey], spec: Any
) -> dict[TopicPartitionKey, int]:
    """Offsets by ``spec``, the ``EARLIEST`` that is held or the one after the ``LATEST`` committed.

    Markers of transactions count as offsets. Raises KafkaException.
    """
    request = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not request:
        return {}
    futures = admin.list_offsets(request, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS)
    return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args) and error.args[0].code() in _PASSING
