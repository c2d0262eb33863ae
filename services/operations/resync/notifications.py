"""What the connector says of its snapshots, in a topic of its own: it comes after the rows that it is about."""

from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from pipelines.kafka.client import ANSWER_SECONDS, LATEST, ask, client_config, list_offsets
from services.stack.endpoints import StackSettings
from services.stack.records import Decoder, read_range
from services.stack.source import topics_of

INITIAL, INCREMENTAL = "Initial Snapshot", "Incremental Snapshot"
STARTED, SCANNED, COMPLETED = "STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"


@dataclass(frozen=True)
class Notification:
    """What the connector says of a snapshot.

    ``kind``: of snapshot; ``type``: what happened to it. The rest is said of a table.
    """

    kind: str
    type: str
    table: str | None = None
    status: str | None = None
    rows: int = 0
    chunk: int = 0
    chunks: int | None = None


class Notifications:
    """What was said since this was made, or since it was last asked."""

    def __init__(self, settings: StackSettings) -> None:
        self._bootstrap, self._topic = settings.kafka_bootstrap, topics_of(settings).notifications
        self._decoder, self._admin = Decoder(settings.schema_registry_url), AdminClient(client_config(self._bootstrap))
        self._read = self._end()

    def news(self) -> Iterator[Notification]:
        """Return what is new, in order. Raises KafkaException."""
        start, self._read = self._read, self._end()
        for message in read_range(self._bootstrap, self._topic, {0: (start, self._read)}):
            event, _ = self._decoder.decode(message.value() or b"")
            said = event["additional_data"] or {}
            yield Notification(
                event["aggregate_type"], event["type"],
                said.get("scanned_collection") or said.get("current_collection_in_progress"), said.get("status"),
                int(said.get("total_rows_scanned", 0)), int(said.get("chunk_index", 0)),
                int(said["total_chunks"]) if "total_chunks" in said else None,
            )  # fmt: skip

    def _end(self) -> int:
        if self._topic not in ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS)).topics:
            return 0
        return ask(lambda: list_offsets(self._admin, [(self._topic, 0)], LATEST))[self._topic, 0]
