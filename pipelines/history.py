"""What Kafka still holds of a topic: for a table that lacks more of it than the stream is going to read.

That is so when the table was dropped or rolled back, or when the stream's checkpoint is newer than the table.
"""

from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import RetryBatch, StopPipeline
from pipelines.kafka import EARLIEST, ask, client_config, list_offsets, settled_ends
from pipelines.ledger import Ranges
from pipelines.read import read_ranges


class TopicHistory:
    """Reads ranges of topics anew, ``at_once`` offsets at a time."""

    def __init__(self, kafka_bootstrap: str, at_once: int) -> None:
        self._kafka_bootstrap, self._at_once = kafka_bootstrap, at_once

    def read(
        self, session: SparkSession, topic: str, ranges: Ranges, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """Parts of ``ranges``, each with its raw records, in order; or all as one part, if ``whole``.

        Raises StopPipeline if Kafka doesn't hold all of them any more, RetryBatch if it doesn't answer.
        """
        if not ranges:
            return
        self._check(topic, ranges)
        for part in [ranges] if whole else parts(ranges, self._at_once):
            yield part, read_ranges(session, self._kafka_bootstrap, topic, part)

    def ends(self, topic: str) -> dict[int, int]:
        """Partition to the offset after the last record that the topic has now. Raises RetryBatch."""
        try:
            return settled_ends(self._kafka_bootstrap, topic)
        except KafkaException as error:
            raise RetryBatch(f"Kafka doesn't answer at {self._kafka_bootstrap}: {error}") from error

    def _check(self, topic: str, ranges: Ranges) -> None:
        admin = AdminClient(client_config(self._kafka_bootstrap))
        try:
            held = ask(lambda: list_offsets(admin, [(topic, partition) for partition in ranges], EARLIEST))
        except KafkaException as error:
            raise RetryBatch(f"Kafka doesn't answer at {self._kafka_bootstrap}: {error}") from error
        lost = [
            f"{start} to {held[topic, partition] - 1} of partition {partition}"
            for partition, (start, _) in sorted(ranges.items())
            if held[topic, partition] > start
        ]
        if lost:
            raise StopPipeline(
                f"the lake lacks offsets of {topic} that Kafka doesn't hold any more: {', '.join(lost)}. Nothing was"
                " skipped or merged. Roll the table back to a snapshot that is newer, or see the README, Trouble."
            )


def parts(ranges: Ranges, at_once: int) -> Iterator[Ranges]:
    """``ranges`` in parts of about ``at_once`` offsets, all partitions advancing alike."""
    total = sum(end - start for start, end in ranges.values())
    count = -(-total // at_once)
    for i in range(count):
        cut = {
            p: (start + (end - start) * i // count, start + (end - start) * (i + 1) // count)
            for p, (start, end) in ranges.items()
        }
        yield {partition: span for partition, span in cut.items() if span[0] < span[1]}
