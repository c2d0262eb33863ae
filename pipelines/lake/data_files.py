"""Write few rows, and positions of deleted ones, to files as Iceberg's own writer makes them.

Iceberg reads each file's statistics from the footer that was written, so they are in its words; files aren't read back
for that.
"""

import json
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.arrow_schema import FIELD_ID, arrow_field, field_id
from pipelines.lake.properties import ROW_GROUPS
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable

Group = TypeVar("Group", bound=Hashable)
# Reserved by Iceberg for files of positions.
DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {FIELD_ID: b"2147483546"}),
        pa.field("pos", pa.int64(), False, {FIELD_ID: b"2147483545"}),
    ]
)
ROW_GROUP_BYTES = 128 << 20
# Files of all tables that are sent at the same time.
_UPLOADS = ThreadPoolExecutor(8, thread_name_prefix="upload")


@dataclass(frozen=True)
class Partition:
    """A partition: of a spec (its id), and its values in Iceberg's JSON form."""

    spec: int
    values: tuple[Any, ...]

    @classmethod
    def of(cls, file: Mapping[str, Any]) -> "Partition":
        """Return the partition of a file in Iceberg's JSON form."""
        return cls(int(file["spec-id"]), tuple(file.get("partition", ())))


def grouped(groups: Sequence[Group]) -> dict[Group, list[int]]:
    """Return each group to the places at which it is."""
    found: dict[Group, list[int]] = {}
    for index, group in enumerate(groups):
        found.setdefault(group, []).append(index)
    return found


@dataclass(frozen=True)
class WrittenFile:
    """A file that is written, and what Iceberg calls it (its DataFile or DeleteFile)."""

    location: str
    partition: Partition
    java: Any


class FileWriter:
    """Writes files of one table as it is now: its columns, its specs and its properties.

    Files are sent in the background: they are there once ``finish`` has returned.
    """

    def __init__(self, table: LakeTable, storage: Storage) -> None:
        self._table, self._storage, self._iceberg = table, storage, table.jvm.org.apache.iceberg
        self.schema = pa.schema([arrow_field(column) for column in table.columns])
        self._metrics = self._iceberg.MetricsConfig.forTable(table.java)
        self._position_metrics = self._iceberg.MetricsConfig.forPositionDelete(table.java)
        self._codec = table.properties.get("write.parquet.compression-codec", "zstd")
        self._group_bytes = int(table.properties.get(ROW_GROUPS, ROW_GROUP_BYTES))
        self._unpartitioned = self._iceberg.PartitionSpec.unpartitioned()
        self._converter, self._whole = _footer_reader(table.jvm)
        self._structs: dict[Partition, Any] = {}
        self._sent: list[Future[None]] = []

    def data(self, rows: pa.Table, partition: Partition) -> WrittenFile:
        """Write rows, whose columns are those of ``schema``."""
        location, data = self._write(rows, partition, "")
        builder = self._iceberg.DataFiles.builder(self._unpartitioned)
        counted = {"nan-value-counts": _counts(_nan_counts(rows)), "split-offsets": _row_groups(data)}
        return self._file(builder, location, data, self._metrics, partition, counted)

    def parts(self, rows: pa.Table, partitions: Sequence[Partition]) -> Iterator[tuple[WrittenFile, pa.Table]]:
        """Write a file for each partition; yield each with its rows. ``partitions``: each row's."""
        for partition, places in grouped(partitions).items():
            part = rows.take(pa.array(places))
            yield self.data(part, partition), part

    def deletes(self, positions: Sequence[tuple[str, int]], partition: Partition) -> WrittenFile:
        """Write positions of deleted rows: a data file's location, and the row's place in it."""
        paths, places = zip(*sorted(positions), strict=True)
        rows = pa.table([pa.array(paths, pa.string()), pa.array(places, pa.int64())], schema=DELETE_SCHEMA)
        location, data = self._write(rows, partition, "-deletes")
        builder = self._iceberg.FileMetadata.deleteFileBuilder(self._unpartitioned).ofPositionDeletes()
        return self._file(builder, location, data, self._position_metrics, partition, {})

    def existing(self, file: Mapping[str, Any]) -> Any:
        """Return what Iceberg calls a file that the table has, from its JSON form."""
        return self._parsed(file, Partition.of(file))

    def finish(self) -> None:
        """Wait until everything is written. Raises OSError."""
        sent, self._sent = self._sent, []
        for each in sent:
            each.result()

    def _write(self, rows: pa.Table, partition: Partition, suffix: str) -> tuple[str, pa.Buffer]:
        sink = pa.BufferOutputStream()
        per_group = max(1, rows.num_rows * self._group_bytes // max(1, rows.nbytes))
        with pq.ParquetWriter(
            sink, rows.schema, compression=self._codec, store_schema=False, store_decimal_as_integer=True
        ) as writer:
            writer.write_table(rows, row_group_size=per_group)
        data = sink.getvalue()
        location = self._location(f"{uuid.uuid4()}{suffix}.parquet", partition)
        self._sent.append(_UPLOADS.submit(self._storage.write, location, data))
        return location, data

    def _file(
        self, builder: Any, location: str, data: pa.Buffer, config: Any, partition: Partition, more: Mapping[str, Any]
    ) -> WrittenFile:
        """Return what Iceberg calls a written file, with ``more`` in its JSON form."""
        metrics = self._footer_metrics(data, config)
        plain = builder.withPath(location).withFormat("parquet").withFileSizeInBytes(data.size).withMetrics(metrics)
        text = self._iceberg.ContentFileParser.toJson(plain.build(), self._unpartitioned)
        own = {"spec-id": partition.spec, "partition": list(partition.values)}
        return WrittenFile(location, partition, self._parsed({**json.loads(text), **own, **more}, partition))

    def _parsed(self, file: Mapping[str, Any], partition: Partition) -> Any:
        node = self._iceberg.util.JsonUtil.mapper().readTree(json.dumps(file))
        return self._iceberg.ContentFileParser.fromJson(node, self._spec(partition))

    def _footer_metrics(self, data: pa.Buffer, config: Any) -> Any:
        """Have Iceberg read the statistics of a file of which it is shown nothing but the footer."""
        view = memoryview(data)
        length = int.from_bytes(view[-8:-4], "little")
        footer = self._table.jvm.java.io.ByteArrayInputStream(bytes(view[-8 - length : -8]))
        metadata = self._converter.readParquetMetadata(footer, self._whole)
        nothing = self._table.jvm.java.util.stream.Stream.empty()
        return self._iceberg.parquet.ParquetUtil.footerMetrics(metadata, nothing, config)

    def _spec(self, partition: Partition) -> Any:
        return self._table.java.specs().get(partition.spec)

    def _location(self, name: str, partition: Partition) -> str:
        provider = self._table.java.locationProvider()
        if not partition.values:
            return str(provider.newDataLocation(name))
        return str(provider.newDataLocation(self._spec(partition), self._struct(partition), name))

    def _struct(self, partition: Partition) -> Any:
        """Return Iceberg's own values of a partition."""
        if partition not in self._structs:
            file = {
                "spec-id": partition.spec, "content": "data", "file-path": "-", "file-format": "parquet",
                "partition": list(partition.values), "file-size-in-bytes": 1, "record-count": 1,
            }  # fmt: skip
            self._structs[partition] = self._parsed(file, partition).partition()
        return self._structs[partition]


@cache
def _footer_reader(jvm: Any) -> tuple[Any, Any]:
    """Return what reads a footer, and the filter that leaves nothing out.

    With options of its own: otherwise each file would have it read all of Hadoop's configuration.
    """
    parquet = jvm.org.apache.iceberg.shaded.org.apache.parquet
    plain = parquet.conf.PlainParquetConfiguration()
    converter = parquet.format.converter.ParquetMetadataConverter
    return converter(parquet.ParquetReadOptions.builder(plain).build()), converter.NO_FILTER


def _nan_counts(rows: pa.Table) -> dict[int, int]:
    """Return how many values of each column are no number, which a footer doesn't say."""
    return {
        field_id(field): pc.sum(pc.is_nan(rows[field.name])).as_py() or 0
        for field in rows.schema
        if pa.types.is_floating(field.type)
    }


def _counts(counts: Mapping[int, int]) -> dict[str, list[int]]:
    return {"keys": list(counts), "values": list(counts.values())}


def _row_groups(data: pa.Buffer) -> list[int]:
    """Return where in a file each row group begins."""
    metadata, offsets = pq.read_metadata(pa.BufferReader(data)), []
    for index in range(metadata.num_row_groups):
        column = metadata.row_group(index).column(0)
        offsets.append(column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset)
    return offsets
