"""Write a stream's rows to files, one for each partition, and tell when the events happened."""

from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipelines.events.plan import INGESTED
from pipelines.lake.arrow_schema import arrow_field, as_rows
from pipelines.lake.data_files import FileWriter, WrittenFile
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.storage import Storage
from pipelines.lake.table import LakeTable


def event_times(good: pa.Table, column: str) -> dict[str, Any] | None:
    """Return when the events happened, and how late the latest came, in seconds; None: there is no event."""
    if not good.num_rows:
        return None
    happened = good[column].cast(pa.timestamp("us"))
    late = pc.subtract(good[INGESTED].cast(pa.timestamp("us")), happened).cast(pa.int64())
    first, last = (moment.replace(tzinfo=UTC).isoformat() for moment in pc.min_max(happened).as_py().values())
    return {"first": first, "last": last, "lateness": round(max(0, pc.max(late).as_py()) / 1e6, 3)}


def write_rows(
    table: LakeTable, session: SparkSession, partitioning: Partitioning, good: pa.Table
) -> list[tuple[WrittenFile, pa.Table]]:
    """Write a file for each partition, and return each with its rows."""
    writer = FileWriter(table, Storage.of(session))
    rows = as_rows(good, [arrow_field(column) for column in table.columns])
    written = list(writer.parts(rows, partitioning.partitions(good)))
    writer.finish()
    return written
