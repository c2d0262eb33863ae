"""Replay: letters put back on their topics, whole keys at a time, each key in its order, each exactly once.

Which letters are about to be put back is written down first, under a number of its own, and the Kafka transaction that
puts them back commits that number as well. So whatever cut a replay short, the next one sees whether it was done.
"""

import uuid
from collections.abc import Iterable
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from pipelines.dead_letters.store import DEAD_LETTER_TOPIC
from pipelines.kafka.avro import Decoder
from pipelines.kafka.client import client_config, committed_offsets
from pipelines.kafka.wire import REPLAYED_FROM
from services.operations.dead_letters.letters import LISTED, Letter, LetterFilter, Letters, position
from services.stack.errors import LakehouseError, Unreachable

# The consumer group whose offset's metadata is the number of the last replay that was done.
GROUP = "lakehouse.replay"
MARK = (DEAD_LETTER_TOPIC, 0)
TRANSACTIONAL_ID = "lakehouse-replay"
SECONDS = 60
WHOLE = (*LISTED, "key", "value", "headers")


class Sealed(LakehouseError):
    """A letter can't be read here."""


def with_keys(letters: Letters, wanted: LetterFilter, decoder: Decoder) -> list[Letter]:
    """Return the open letters that are wanted, and those that wait behind them: the other open ones of their keys."""
    chosen = letters.find(wanted, decoder, (*LISTED, "key"))
    keys = {(letter["topic"], letter["key"]) for letter in chosen if letter["key"] is not None}
    alone = {position(letter) for letter in chosen}
    return [
        letter
        for letter in letters.find(LetterFilter(), decoder, WHOLE)
        if (letter["topic"], letter["key"]) in keys or position(letter) in alone
    ]


def check_opened(chosen: Iterable[Letter]) -> None:
    """Raise Sealed if one of the letters still is."""
    sealed = [position(letter) for letter in chosen if letter["sealed"]]
    if sealed:
        named = ", ".join(":".join(map(str, where)) for where in sealed[:5])
        raise Sealed(
            f"{len(sealed):,} letters are of tables that protect something, and sealed with another PROTECTION_KEY than"
            f" the one here, if there is one: {named}. Nothing was put back. Run this where that key is, or discard"
            " them."
        )


def close_interrupted(letters: Letters, bootstrap: str) -> None:
    """Close the letters of a replay that was done and then cut short. Raises Unreachable."""
    try:
        letters.finish(_last_done(bootstrap))
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from error


def replay(letters: Letters, wanted: LetterFilter, decoder: Decoder, bootstrap: str) -> list[Letter]:
    """Put letters, and those that wait behind them, back on their partitions, and return which ones.

    All in one transaction; they are closed then. Sealed ones are put back as they were, beside the topic's other
    records. Raises Unreachable, and Sealed for letters that can't be opened.
    """
    try:
        producer = Producer(client_config(bootstrap) | {"transactional.id": TRANSACTIONAL_ID})
        # From here on no earlier replay can come to its end.
        producer.init_transactions(SECONDS)
        letters.finish(_last_done(bootstrap))
        chosen = with_keys(letters, wanted, decoder)
        check_opened(chosen)
        if chosen:
            number = str(uuid.uuid4())
            letters.begin(chosen, number)
            with closing(Consumer(client_config(bootstrap) | {"group.id": GROUP})) as group:
                _produce(producer, group, chosen, number)
            letters.finish(number)
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from error
    return chosen


def _produce(producer: Producer, group: Consumer, chosen: Iterable[Letter], number: str) -> None:
    failed: list[KafkaException] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    producer.begin_transaction()
    for letter in chosen:
        headers = [(header["key"], header["value"]) for header in letter["headers"] or []]
        headers.append((REPLAYED_FROM, f"{letter['partition']}:{letter['offset']}".encode()))
        producer.produce(
            letter["topic"], partition=letter["partition"], key=letter["key"], value=letter["value"], headers=headers,
            on_delivery=delivered,
        )  # fmt: skip
        producer.poll(0)
    producer.flush(SECONDS)
    if failed:
        producer.abort_transaction(SECONDS)
        raise failed[0]
    mark = TopicPartition(*MARK, 0, metadata=number)
    producer.send_offsets_to_transaction([mark], group.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)


def _last_done(bootstrap: str) -> str | None:
    (found,) = committed_offsets(bootstrap, GROUP, [MARK])
    return found.metadata or None


def _unreachable(bootstrap: str, error: KafkaException) -> Unreachable:
    return Unreachable("Kafka", bootstrap, error.args[0].str() if error.args else "")
