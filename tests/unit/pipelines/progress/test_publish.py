"""What a new process says of tables that the one before held."""

import pytest
from confluent_kafka import TopicPartition

from pipelines.progress.publish import ProgressOffsets, retries


@pytest.mark.parametrize(
    ("metadata", "published"),
    [
        pytest.param("mend it", {("shop.public.a", 1): (7, "tried again soon: mend it")}, id="for a person to mend"),
        pytest.param("tried again soon: it hangs", {}, id="it may pass by itself"),
        pytest.param("given up: nobody reads it", {}, id="given up, and nobody waits for it"),
        pytest.param("waits: for its input", {}, id="its input is to come"),
        pytest.param("", {}, id="not held"),
    ],
)
def test_what_was_held_is_tried_again(metadata: str, published: ProgressOffsets) -> None:
    assert retries([TopicPartition("shop.public.a", 1, 7, metadata)]) == published


def test_a_long_reason_is_cut_as_brokers_want_it() -> None:
    ((_, why),) = retries([TopicPartition("shop.public.a", 0, 7, "x" * 1000)]).values()
    assert len(why) == 1000
