"""What the topics hold, read as they are: the last records, and the changes of a while."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from pipelines.kafka.avro import HEADER_BYTES
from pipelines.kafka.client import read_range
from pipelines.kafka.registry import SchemaRegistry
from pipelines.sources.debezium.names import topic_name
from services.stack.endpoints import StackSettings
from services.stack.offsets import Offsets, kafka
from tests.bench.freshness import Change
from tests.bench.workloads import Workload

# Markers of transactions lie behind the last record of a partition.
LAST_OFFSETS = 40
# What is read of an event: the rest is skipped, which is quicker.
READ, READ_OF_SOURCE = ("op", "source"), ("lsn", "ts_us")


@dataclass(frozen=True)
class Topics:
    """The topics of one workload."""

    settings: StackSettings
    workload: Workload

    def name(self, table: str) -> str:
        """The topic of a table."""
        return topic_name(self.settings.source_name, self.workload.schema, table)

    def ends(self) -> Offsets:
        """Topic and partition to the offset after the last one."""
        wanted = {self.name(table) for table in self.workload.tables}
        offsets = kafka(self.settings)
        return offsets.ends([key for key in offsets.partitions() if key[0] in wanted])

    def last_positions(self) -> dict[str, set[int]]:
        """Table to the log positions of the last change of each of its partitions that leaves a row."""
        ends = self.ends()
        starts = {key: max(0, end - LAST_OFFSETS) for key, end in ends.items()}
        last: dict[tuple[str, int], Change] = {}
        for partition, change in self._changes(starts, ends):
            if change.op != "d":
                last[change.table, partition] = change
        found: dict[str, set[int]] = {}
        for (table, _), change in last.items():
            found.setdefault(table, set()).add(change.lsn)
        return found

    def changes(self, starts: Mapping[tuple[str, int], int], ends: Offsets) -> list[Change]:
        """All changes between two positions, tombstones left out."""
        return [change for _, change in self._changes(starts, ends)]

    def value_schema(self, table: str) -> str:
        """The Avro schema of a table's events: one, as no workload changes its tables."""
        number = int.from_bytes((self._last(table).value() or b"")[1:HEADER_BYTES], "big")
        return self._registry.schema(number)

    def _last(self, table: str) -> Any:
        topic = self.name(table)
        for (name, partition), end in self.ends().items():
            if name == topic and end:
                span = {partition: (max(0, end - LAST_OFFSETS), end)}
                records = [m for m in read_range(self.settings.kafka_bootstrap, topic, span) if m.value()]
                if records:
                    return records[-1]
        raise LookupError(f"{topic} is empty")

    @property
    def _registry(self) -> SchemaRegistry:
        return SchemaRegistry(self.settings.schema_registry_url)

    def _changes(self, starts: Mapping[tuple[str, int], int], ends: Offsets) -> Iterator[tuple[int, Change]]:
        registry = self._registry

        @lru_cache(maxsize=64)
        def schemas(number: int) -> Any:
            written = json.loads(registry.schema(number))
            return fastavro.parse_schema(written), fastavro.parse_schema(narrowed(written))

        for table in self.workload.tables:
            topic = self.name(table)
            spans = {p: (starts.get((t, p), 0), end) for (t, p), end in ends.items() if t == topic}
            for message in read_range(self.settings.kafka_bootstrap, topic, spans):
                value = message.value()
                if value is None:
                    continue
                written, read = schemas(int.from_bytes(value[1:HEADER_BYTES], "big"))
                event: Any = fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), written, read)
                source = event["source"]
                yield (
                    message.partition() or 0,
                    Change(
                        table,
                        source["lsn"] or 0,
                        bytes(message.key() or b""),
                        event["op"],
                        (source["ts_us"] or 0) / 1e6,
                    ),
                )


def narrowed(written: dict[str, Any]) -> dict[str, Any]:
    """A reader's schema of an event that leaves out the row."""
    source = next(field["type"] for field in written["fields"] if field["name"] == "source")
    kept = [field for field in source["fields"] if field["name"] in READ_OF_SOURCE]
    fields = [field for field in written["fields"] if field["name"] in READ]
    return {
        **written,
        "fields": [{**f, "type": {**source, "fields": kept}} if f["name"] == "source" else f for f in fields],
    }
