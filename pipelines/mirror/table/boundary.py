"""Find where in each partition of a topic a position of the source's log lies.

A partition has a table's changes in the order in which their transactions were committed. So positions don't only rise:
what was written earlier may have been committed later.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.kafka.profile import TopicProfile, profile_records
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.sources.base.source import Schemas, StreamSource

Read = Callable[[Ranges], Iterator[tuple[Ranges, DataFrame]]]
LookUp = Callable[[TopicProfile], Schemas]


def ranges_before(
    read: Read, source: StreamSource, look_up: LookUp, topic: str, pending: Ranges, position: int
) -> dict[int, tuple[int, int]]:
    """Return the part of ``pending`` that is older than ``position``.

    It is each partition's offsets below its first newer record. Every transaction of the table waited for ``position``.
    """
    cut: dict[int, int] = {}
    for _, records in read(pending):
        for partition, (first, _) in _offsets(
            records, source, look_up, topic, F.col("log_position") >= position
        ).items():
            cut.setdefault(partition, first)
    return non_empty({p: (start, min(end, cut.get(p, end))) for p, (start, end) in pending.items()})


def ranges_through(
    read: Read, source: StreamSource, look_up: LookUp, topic: str, pending: Ranges, position: int
) -> dict[int, tuple[int, int]]:
    """Return the part of ``pending`` that has everything up to ``position``.

    It is each partition's offsets up to its last such record. A partition that has none is left out. There may be newer
    records among them.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for _, records in read(pending):
        for partition, (_, last) in _offsets(
            records, source, look_up, topic, F.col("log_position") <= position
        ).items():
            ranges[partition] = (pending[partition][0], last + 1)
    return ranges


def _offsets(
    records: DataFrame, source: StreamSource, look_up: LookUp, topic: str, condition: Column
) -> dict[int, tuple[int, int]]:
    """Return partition to the first and the last offset of the records that meet ``condition``."""
    profile = profile_records(records).get(topic)
    found: dict[int, tuple[int, int]] = {}
    for shape, writers in look_up(profile).written if profile is not None else ():
        chosen = source.decode(records, shape, writers, {}).where(condition)
        for row in (
            chosen.groupBy("partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
        ):
            first, last = found.get(row.partition, (row.first, row.last))
            found[row.partition] = (min(first, row.first), max(last, row.last))
    return found
