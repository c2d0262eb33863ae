"""Rekey: a table's key changes, at one position of the log.

Before that position a row's events come under its old key, after it under the new one, and on whatever partitions the
two fall. So what is older goes in first, from all partitions, under the old key; then the table is rekeyed; then the
rest. A change of the key waits for every other transaction of the table: whatever is older was committed before it, and
is in Kafka before the schema log tells of the change. See infra/decisions/021-key-changes.md.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines import evolve
from pipelines.decode import decode
from pipelines.errors import PipelineError
from pipelines.iceberg import LakeTable
from pipelines.ledger import Ranges
from pipelines.profile import profile
from pipelines.registry import SchemaRegistry
from pipelines.schemas import Schemas, look_up
from pipelines.sources.postgres.schema_log import TableVersions, Version


class KeyChanged(PipelineError):
    """The records are from after a change of the key that the table hasn't followed yet."""


def is_anothers(table: LakeTable | None, versions: TableVersions) -> bool:
    """Whether another table had the name before, and the lake's may still be that one's."""
    if versions.replaced_at is None or not versions.versions:
        return False
    return table is None or evolve.relation(table) not in (None, versions.versions[0].relation)


def due(table: LakeTable | None, versions: TableVersions) -> list[Version]:
    """The changes of the key that the table is yet to follow, oldest first."""
    if not versions.key_changes:
        return []
    has = evolve.applied(table, versions).version if table is not None else None
    return [change for change in versions.key_changes if has is None or change.lsn > has.lsn]


def older(
    read: Callable[[Ranges], Iterator[tuple[Ranges, DataFrame]]],
    registry: SchemaRegistry,
    topic: str,
    pending: Ranges,
    change: Version,
    placeholder: str,
) -> Ranges:
    """The part of ``pending`` that is from before ``change``: each partition's offsets below its first newer record."""
    cut: dict[int, int] = {}
    for _, records in read(pending):
        seen = profile(records).get(topic)
        if seen is not None:
            cut = {**_first_newer(records, look_up(registry, seen), change.lsn, placeholder), **cut}
    ranges = {partition: (start, min(end, cut.get(partition, end))) for partition, (start, end) in pending.items()}
    return {partition: (start, end) for partition, (start, end) in ranges.items() if start < end}


def _first_newer(records: DataFrame, found: Schemas, lsn: int, placeholder: str) -> dict[int, int]:
    first: dict[int, int] = {}
    for shape, writers in found.written:
        newer = decode(records, shape, writers, {}, placeholder).where(F.col("lsn") >= lsn)
        for row in newer.groupBy("partition").agg(F.min("offset").alias("offset")).collect():
            first[row.partition] = min(row.offset, first.get(row.partition, row.offset))
    return first
