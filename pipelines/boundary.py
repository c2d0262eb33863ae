"""Boundary: where in each partition of a topic a position of the source's log lies.

A partition has a topic's changes in the order of the log, so that one offset parts the older from the newer.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.decode import decode
from pipelines.ledger import Ranges
from pipelines.profile import TopicProfile, profile
from pipelines.schemas import Schemas

Read = Callable[[Ranges], Iterator[tuple[Ranges, DataFrame]]]
LookUp = Callable[[TopicProfile], Schemas]


def before(
    read: Read, look_up: LookUp, topic: str, pending: Ranges, lsn: int, placeholder: str
) -> dict[int, tuple[int, int]]:
    """The part of ``pending`` that is older than ``lsn``: each partition's offsets below its first newer record."""
    cut: dict[int, int] = {}
    for _, records in read(pending):
        seen = profile(records).get(topic)
        if seen is not None:
            cut = {**_first_newer(records, look_up(seen), lsn, placeholder), **cut}
    ranges = {partition: (start, min(end, cut.get(partition, end))) for partition, (start, end) in pending.items()}
    return {partition: (start, end) for partition, (start, end) in ranges.items() if start < end}


def _first_newer(records: DataFrame, found: Schemas, lsn: int, placeholder: str) -> dict[int, int]:
    first: dict[int, int] = {}
    for shape, writers in found.written:
        newer = decode(records, shape, writers, {}, placeholder).where(F.col("lsn") >= lsn)
        for row in newer.groupBy("partition").agg(F.min("offset").alias("offset")).collect():
            first[row.partition] = min(row.offset, first.get(row.partition, row.offset))
    return first
