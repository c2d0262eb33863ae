"""Kafka without Spark: offsets, and the few records that a process needs itself."""

import atexit
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.admin._listoffsets import OffsetSpec
from tenacity import RetryError, Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

from pipelines.errors import RetryBatch, StopPipeline

ANSWER_SECONDS = 10.0
POLL_SECONDS = 1.0
# Longer than Kafka lets a transaction be open by default.
TRANSACTION_SECONDS = 90
SILENT_POLLS = 30
# Records as large as brokers let through.
ANY_SIZE = {"message.max.bytes": 1_000_000_000, "receive.message.max.bytes": 2_147_483_647}
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

# What a broker answers of a topic just made, or while a partition or a group moves.
_TRANSIENT = {
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}  # fmt: skip

TopicPartitionKey = tuple[str, int]
Answer = TypeVar("Answer")

_SILENT = logging.getLogger("lakehouse.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


def client_config(bootstrap: str) -> dict[str, Any]:
    """Return the configuration of a Kafka client that says nothing on standard error: what fails is raised.

    It takes records as large as brokers let through.
    """
    return {
        "bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None, "logger": _SILENT,
        **ANY_SIZE,
    }  # fmt: skip


@cache
def admin_client(bootstrap: str) -> AdminClient:
    """Return the process's one administrator of these brokers, which several threads may use.

    One that is collected may wait for ever for its own threads, as a consumer may.
    """
    return AdminClient(client_config(bootstrap))


def ask(question: Callable[[], Answer]) -> Answer:
    """Return the answer to ``question``; what will pass by itself is asked again for a while. Raises KafkaException."""
    again = Retrying(
        retry=retry_if_exception(_is_transient), stop=stop_after_delay(ANSWER_SECONDS),
        wait=wait_exponential(0.1, max=1), reraise=True,
    )  # fmt: skip
    return again(question)


def committed_offsets(bootstrap: str, group: str, partitions: Iterable[TopicPartitionKey]) -> list[TopicPartition]:
    """Return what a consumer group has committed of each partition, with its metadata; an offset below 0: nothing.

    Raises KafkaException.
    """
    asked = [TopicPartition(topic, partition) for topic, partition in partitions]
    return ask(lambda: _member(bootstrap, group).committed(asked, timeout=ANSWER_SECONDS)) if asked else []


@cache
def _member(bootstrap: str, group: str) -> Consumer:
    """Return the process's one consumer that asks for a group's offsets.

    The admin client's own question kills the process while the group's coordinator moves (librdkafka #5040). A consumer
    that is collected before it was closed may never end, and holds up its process, at full load: so it isn't collected.
    """
    consumer = Consumer(client_config(bootstrap) | {"group.id": group, "enable.auto.commit": False})
    atexit.register(consumer.close)
    return consumer


def list_offsets(
    admin: AdminClient,
    partitions: Iterable[TopicPartitionKey],
    spec: Any,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[TopicPartitionKey, int]:
    """Return offsets by ``spec``: the ``EARLIEST`` that is stored, or the one after the ``LATEST`` that may be read.

    Markers of transactions count as offsets. Raises KafkaException.
    """
    request = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not request:
        return {}
    futures = admin.list_offsets(request, isolation_level=isolation, request_timeout=ANSWER_SECONDS)
    return {(tp.topic, tp.partition): future.result().offset for tp, future in futures.items()}


def partitions_of(bootstrap: str, topic: str) -> list[int]:
    """Return the partitions of a topic; none: there is no such topic. Raises KafkaException.

    All topics are listed: to ask for one might make it.
    """
    topics = ask(lambda: admin_client(bootstrap).list_topics(timeout=ANSWER_SECONDS).topics)
    return sorted(topics[topic].partitions) if topic in topics else []


def topic_id(bootstrap: str, topic: str) -> str:
    """Return Kafka's own name for a topic, which one that is made anew under its name hasn't got.

    Raises KafkaException, also where there is no such topic.
    """
    asked = TopicCollection([topic])

    def describe() -> Any:
        return admin_client(bootstrap).describe_topics(asked, request_timeout=ANSWER_SECONDS)[topic].result().topic_id

    identity = ask(describe)
    halves = (identity.get_most_significant_bits(), identity.get_least_significant_bits())
    return "".join(f"{half & 0xFFFF_FFFF_FFFF_FFFF:016x}" for half in halves)


def stable_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return partition to the offset after the last record that the topic has now, once their transactions have ended.

    Raises KafkaException, or RetryBatch when a transaction stays open for long.
    """
    admin = admin_client(bootstrap)
    partitions = [
        (topic, p) for p in ask(lambda: admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic].partitions)
    ]
    written = ask(lambda: list_offsets(admin, partitions, LATEST, IsolationLevel.READ_UNCOMMITTED))

    def open_ones() -> list[TopicPartitionKey]:
        committed = ask(lambda: list_offsets(admin, partitions, LATEST))
        return [key for key, end in written.items() if committed[key] < end]

    try:
        Retrying(
            retry=retry_if_result(bool), stop=stop_after_delay(TRANSACTION_SECONDS), wait=wait_exponential(0.05, max=1)
        )(open_ones)
    except RetryError:
        raise RetryBatch(f"a transaction on {topic} has been open for {TRANSACTION_SECONDS} s") from None
    return {partition: end for (_, partition), end in written.items()}


def create_topic(bootstrap: str, name: str, config: Mapping[str, str], partitions: int = 1) -> None:
    """Create a topic, unless it exists. Raises RetryBatch."""
    admin = admin_client(bootstrap)
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(config))
    try:
        admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise RetryBatch(f"the topic {name} can't be created at {bootstrap}: {error}") from error


def read_range(bootstrap: str, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Yield the committed records of ``ranges``, in offset order by partition.

    ``ranges``: partition to first offset and the one after the last. Raises StopPipeline where an offset isn't stored
    any more, RetryBatch when nothing is heard for long.
    """
    left = {partition: end for partition, (start, end) in ranges.items() if start < end}
    if not left:
        return
    config = client_config(bootstrap) | {
        "group.id": "lakehouse.reader", "enable.auto.commit": False, "isolation.level": "read_committed",
        "enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50,
        "queued.max.messages.kbytes": 32768,
    }  # fmt: skip
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in left])
        silent = 0
        while left:
            message = consumer.poll(POLL_SECONDS)
            silent = silent + 1 if message is None else 0
            if message is None:
                if silent > SILENT_POLLS:
                    raise RetryBatch(f"no record of {topic} for {SILENT_POLLS} s")
                continue
            yield from _records_of(consumer, message, topic, left)
    finally:
        consumer.close()


def _records_of(consumer: Consumer, message: Message, topic: str, left: dict[int, int]) -> Iterator[Message]:
    partition, offset, error = message.partition() or 0, message.offset() or 0, message.error()
    if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise StopPipeline(
            f"{topic} doesn't hold the records any more that the lake lacks: {error.str()}. See"
            " infra/runbooks/offsets-lost.md"
        )
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    end = left.get(partition)
    if end is None:
        return
    # The end of a partition is reported at an offset past the markers of transactions, which are no records.
    if error is None and offset < end:
        yield message
    if offset >= end - (error is None):
        del left[partition]
        consumer.pause([TopicPartition(topic, partition)])


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and bool(error.args) and error.args[0].code() in _TRANSIENT
