"""See that a table's positions are of the topic that there is now, or have the table begin anew with it."""

from collections.abc import Callable, Collection
from typing import Protocol

from pyspark.sql import SparkSession

from pipelines.lake.catalog import Lake
from pipelines.ledger.renewed_topics import refuse, renewal, void_rows
from pipelines.ledger.resyncs import Resync
from pipelines.ledger.table_ledger import TableLedger


class _Topics(Protocol):
    def topic_id(self, topic: str) -> str: ...

    def present_ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]: ...


class TopicCheck:
    """The check of one table, done once for a process: whoever reads a topic fails where it is renewed meanwhile.

    ``command``: what a person shall run where the topic was renewed. ``void_letters``: voids the offsets of the topic's
    dead letters. ``is_all``: whoever begins anew has nothing else left to do for a resync.
    """

    def __init__(
        self, topic: str, topics: _Topics, command: str, void_letters: Callable[[str], None], is_all: bool = False
    ) -> None:
        self._topic, self._topics, self._command, self._is_all = topic, topics, command, is_all
        self._void_letters = void_letters
        self.forget()

    def forget(self) -> None:
        """Have it done again."""
        self._done = False

    def make(
        self, session: SparkSession, ledger: TableLedger, resync: Callable[[], Resync | None], batch: int
    ) -> list[str]:
        """Return what was changed of a table with this ledger, which was loaded.

        ``resync``: tells the newest one of the topic. Raises StopPipeline where the topic was renewed, and nobody has
        said yet that the table shall begin anew, and RetryBatch.
        """
        if self._done:
            return []
        known, topic = ledger.known, self._topic
        ledger.topic_id = self._topics.topic_id(topic)
        ends = self._topics.present_ends(topic, known.positions) if known.positions else {}
        changes, asked = [], resync() if ledger.table is not None else None
        if ledger.table is not None and asked is not None and asked.anew and known.resync != asked.id:
            # However long the topic is by now: it was another one when it was asked for.
            void_rows(session, ledger.table)
            self._void_letters(topic)
            ledger.load(Lake(session))
            ledger.begin_anew(asked.begun_anew(ledger.known, ledger.topic_id, self._is_all), batch)
            changes.append(f"begun anew with {topic}, which was renewed")
        elif ledger.table is not None and (why := renewal(known, ledger.topic_id, ends)):
            raise refuse(topic, why, self._command)
        self._done = True
        return changes
