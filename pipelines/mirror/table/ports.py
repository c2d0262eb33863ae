"""The ports of one table's mirror: what it needs of the world around it."""

from collections.abc import Collection, Iterator, Set
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from pipelines.kafka.ranges import Ranges
from pipelines.ledger.resyncs import Resync


class TopicRecords(Protocol):
    """Reads ranges of topics anew, ``at_once`` offsets at a time. Raises RetryBatch where Kafka doesn't answer."""

    at_once: int

    def read(
        self, session: SparkSession, topic: str, ranges: Ranges, whole: bool = False
    ) -> Iterator[tuple[Ranges, DataFrame]]:
        """Yield parts of ``ranges``, each with its raw records, in order; or all as one part, if ``whole``."""
        ...

    def ends(self, topic: str) -> dict[int, int]:
        """Return partition to the offset after the last record that the topic has now."""
        ...

    def prepared(self, session: SparkSession) -> DataFrame:
        """Return the records of what a run of a plan is asked for (:mod:`pipelines.kafka.worker_records`)."""
        ...

    def ask(self, topic: str, ranges: Ranges) -> str:
        """Return what to ask a run for, so that it is of these ranges."""
        ...

    def present_ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Return partition to the offset after the last record that may be read now."""
        ...

    def topic_id(self, topic: str) -> str:
        """Return Kafka's own name for the topic that there is now."""
        ...

    def lost(self, topic: str, ranges: Ranges) -> dict[int, tuple[int, int]]:
        """Return what of ``ranges`` Kafka doesn't hold any more."""
        ...


class LetterStore(Protocol):
    """Keeps dead letters, each once."""

    def write(self, letters: DataFrame, topic: str, batch: int, ranges: Ranges) -> None:
        """Keep ``letters`` of ``topic``, which are all that this batch has of these offsets."""
        ...

    def void(self, topic: str) -> None:
        """Void the offsets of what there is of ``topic``, which was renewed."""
        ...


class WaitingLookup(Protocol):
    """Knows which keys have open dead letters, and which letters a person has let pass."""

    def of(self, topic: str) -> DataFrame | None:
        """Return the first open letter of each key (see :func:`pipelines.changes.waiting.followers`), or None."""
        ...

    def keys(self, topic: str) -> Set[bytes]:
        """Return the keys of the topic's records that have open letters."""
        ...

    def accepted(self, topic: str) -> dict[int, int]:
        """Return partition to the offset below which a person has let any number of letters pass."""
        ...


class ResyncLookup(Protocol):
    """Knows the newest resync of each topic."""

    def of(self, topic: str) -> Resync | None:
        """Return the newest resync of the topic."""
        ...
