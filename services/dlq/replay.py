"""Replay: letters put back on their topics, whole keys at a time, each key in its order."""

from collections.abc import Iterable

from confluent_kafka import KafkaException, Producer

from pipelines.actions import REPLAYED
from pipelines.avro import Decoder
from pipelines.kafka import REPLAYED_FROM, client_config
from services.dlq.letters import LISTED, Letter, Letters, Wanted, position
from services.verify.errors import Unreachable

TRANSACTIONAL_ID = "lakehouse-replay"
SECONDS = 60
WHOLE = (*LISTED, "key", "value", "headers")


def with_keys(letters: Letters, wanted: Wanted, decoder: Decoder) -> list[Letter]:
    """The open letters that are wanted, and those that wait behind them: the other open ones of their keys."""
    chosen = letters.find(wanted, decoder, (*LISTED, "key"))
    keys = {(letter["topic"], letter["key"]) for letter in chosen if letter["key"] is not None}
    alone = {position(letter) for letter in chosen}
    return [
        letter
        for letter in letters.find(Wanted(), decoder, WHOLE)
        if (letter["topic"], letter["key"]) in keys or position(letter) in alone
    ]


def replay(letters: Letters, chosen: list[Letter], bootstrap: str) -> None:
    """Put ``chosen`` back on their partitions in one transaction, and close them.

    A crash between the two leaves them open though they were put back; replaying them again changes nothing, because
    the log position guards the rows. Raises Unreachable.
    """
    if not chosen:
        return
    try:
        _produce(chosen, bootstrap)
    except KafkaException as error:
        raise Unreachable("Kafka", bootstrap, error.args[0].str() if error.args else "") from error
    letters.close(chosen, REPLAYED, None)


def _produce(chosen: Iterable[Letter], bootstrap: str) -> None:
    producer = Producer(client_config(bootstrap) | {"transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    failed: list[KafkaException] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(KafkaException(error))

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
    producer.commit_transaction(SECONDS)
