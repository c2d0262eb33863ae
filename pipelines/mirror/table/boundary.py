"""Boundary: where in each partition of a topic a position of the source's log lies.

A partition has a table's changes in the order in which their transactions were committed. So positions don't only rise:
what was written earlier may have been committed later.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.kafka.profile import TopicProfile, profile
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.sources.debezium.decode import decode
from pipelines.sources.debezium.schemas import Schemas

Read = Callable[[Ranges], Iterator[tuple[Ranges, DataFrame]]]
LookUp = Callable[[TopicProfile], Schemas]


def before(
    read: Read, look_up: LookUp, topic: str, pending: Ranges, lsn: int, placeholder: str
) -> dict[int, tuple[int, int]]:
    """The part of ``pending`` that is older than ``lsn``, a position for which every transaction of the table waited:
    each partition's offsets below its first newer record.
    """
    cut: dict[int, int] = {}
    for _, records in read(pending):
        for partition, (first, _) in _offsets(records, look_up, topic, F.col("lsn") >= lsn, placeholder).items():
            cut.setdefault(partition, first)
    return non_empty({p: (start, min(end, cut.get(p, end))) for p, (start, end) in pending.items()})


def through(
    read: Read, look_up: LookUp, topic: str, pending: Ranges, lsn: int, placeholder: str
) -> dict[int, tuple[int, int]]:
    """The part of ``pending`` that has everything up to ``lsn``: each partition's offsets up to its last such record.

    A partition that has none is left out. There may be newer records among them.
    """
    ranges: dict[int, tuple[int, int]] = {}
    for _, records in read(pending):
        for partition, (_, last) in _offsets(records, look_up, topic, F.col("lsn") <= lsn, placeholder).items():
            ranges[partition] = (pending[partition][0], last + 1)
    return ranges


def _offsets(
    records: DataFrame, look_up: LookUp, topic: str, condition: Column, placeholder: str
) -> dict[int, tuple[int, int]]:
    """Partition to the first and the last offset of the records that meet ``condition``."""
    seen = profile(records).get(topic)
    found: dict[int, tuple[int, int]] = {}
    for shape, writers in look_up(seen).written if seen is not None else ():
        chosen = decode(records, shape, writers, {}, placeholder).where(condition)
        for row in (
            chosen.groupBy("partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
        ):
            first, last = found.get(row.partition, (row.first, row.last))
            found[row.partition] = (min(first, row.first), max(last, row.last))
    return found
