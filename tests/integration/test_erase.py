"""A row that is deleted in the source and erased, by the contract of ``forgotten`` in tests.integration.stack."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.objects import texts
from tests.integration.stack import Stack, wait_until

pytestmark = pytest.mark.process
TOPIC, LETTERS = "shop.public.forgotten", "lakehouse.dead-letters"
FOLDERS = ("warehouse/shop/forgotten/", "published/restricted/shop/forgotten/", "warehouse/lakehouse/")
SAID = ("Forget Me", "secret-7@", "never an address")


def kept(stack: Stack) -> Iterator[str]:
    """Where something of the row is: objects of the lake, whether a table knows them or not, and records of topics."""
    yield from (name for name, text in texts(stack, *FOLDERS) if _tells(text))
    for topic in (TOPIC, LETTERS):
        yield from (
            f"{topic}:{message.offset()}" for message in _records(stack, topic) if _tells(repr(message.value()))
        )


def _tells(text: str) -> bool:
    return any(word in text for word in SAID)


def _records(stack: Stack, topic: str) -> Iterator[Any]:
    consumer = Consumer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"], "group.id": "tests.reader",
                         "enable.auto.commit": False, "enable.partition.eof": True})  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        starts = [
            TopicPartition(topic, p, consumer.get_watermark_offsets(TopicPartition(topic, p))[0]) for p in partitions
        ]
        consumer.assign(starts)
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                ended.add(message.partition() or 0)
            else:
                yield message
    finally:
        consumer.close()


def test_the_source_comes_first(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE forgotten (id bigint PRIMARY KEY, name text, mail text)",
        "INSERT INTO forgotten VALUES (1, 'Ada', 'ada@x'), (7, 'Forget Me Now', 'secret-7@x'), (9, 'Eve', 'eve@x')",
    )
    stack.assert_equal("forgotten")
    stack.sql("UPDATE forgotten SET name = 'Forget Me Later' WHERE id = 7")
    stack.lakehouse("wait")
    wait_until(lambda: any(name.startswith("published/") for name in kept(stack)))
    before = set(kept(stack))
    assert "still has 1 such row" in stack.lakehouse("erase", "forgotten", "7", ok=(2,))["error"]
    assert "no column nam" in stack.lakehouse("erase", "forgotten", "nam=x", ok=(2,))["error"]
    told = stack.lakehouse("erase", "forgotten", "7", "--dry-run")
    found = {copy["where"]: copy["found"] for copy in told["copies"]}
    assert found["public.forgotten"] == 1
    assert found["lake.shop.forgotten"] >= 1
    assert set(kept(stack)) >= before


def test_a_deletion_that_waits_behind_a_letter_is_told(stack: Stack) -> None:
    stack.sql("UPDATE forgotten SET mail = 'never an address' WHERE id = 7", "DELETE FROM forgotten WHERE id = 7")
    stack.lakehouse("wait")
    said = stack.lakehouse("erase", "forgotten", "7", ok=(2,))["error"]
    assert "still has 1 such row, though its source hasn't" in said
    letters = stack.lakehouse("dlq", "list", "--topic", TOPIC)["letters"]
    broken = next(letter for letter in letters if letter["reason"] == "rule_broken")
    stack.lakehouse("dlq", "discard", f"{TOPIC}:{broken['partition']}:{broken['offset']}", "--because", "deleted")
    stack.lakehouse("dlq", "replay", "--topic", TOPIC)
    stack.assert_equal("forgotten")


@pytest.mark.slow
def test_nobody_loses_what_they_have_not_read(stack: Stack) -> None:
    consumer = Consumer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"], "group.id": "tests.slow"})
    consumer.commit(offsets=[TopicPartition(TOPIC, p, 0) for p in range(3)], asynchronous=False)
    consumer.close()
    assert "tests.slow" in stack.lakehouse("erase", "forgotten", "7", ok=(2,))["error"]
    admin = AdminClient({"bootstrap.servers": stack.endpoints["kafka_bootstrap"]})
    for future in admin.delete_consumer_groups(["tests.slow"]).values():
        future.result()


@pytest.mark.slow
def test_no_copy_is_left_and_the_lake_goes_on(stack: Stack) -> None:
    there = list(kept(stack))
    assert any(name.startswith("warehouse/lakehouse/dead_letters/") for name in there)
    assert any(name.startswith(TOPIC) for name in there)
    assert any(name.startswith(LETTERS) for name in there)
    erased = stack.lakehouse("erase", "forgotten", "7", "--because", "asked for")
    assert erased["erased"], json.dumps(erased, indent=1)
    assert list(kept(stack)) == []
    entry = stack.lakehouse("audit")["actions"][0]
    assert (entry["action"], entry["because"], entry["outcome"]) == ("erase", "asked for", "done")
    assert entry["target"].startswith("lake.shop.forgotten, row ")
    # The same again finds nothing.
    again = stack.lakehouse("erase", "forgotten", "id=7")
    assert {copy["where"]: copy["found"] for copy in again["copies"]}["lake.shop.forgotten"] == 0

    stack.sql("INSERT INTO forgotten VALUES (8, 'New', 'new@x')", "UPDATE forgotten SET name = 'Eva' WHERE id = 9")
    stack.assert_equal("forgotten")
    # It begins where the lake has come to, before which the topic has nothing any more.
    stack.make("kill", "s=mirror")
    stack.sql("DELETE FROM forgotten WHERE id = 1")
    stack.assert_equal("forgotten")
