"""Profile a batch of raw records: what it holds, by topic, found in one pass without decoding."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.kafka.wire import schema_id, schema_number


@dataclass
class TopicProfile:
    """The profile of one topic's records in a batch.

    ``ranges``: partition to first offset and the one after the last; ``schema_ids``: schema id to the last offset that
    has it; ``unkeyed``: records with a value and without a key. ``expected``: nobody has looked (see
    :mod:`pipelines.kafka.expected`), and ``rows`` are the most that there can be.
    """

    topic: str
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    schema_ids: dict[int, int] = field(default_factory=dict)
    key_schema_ids: set[int] = field(default_factory=set)
    rows: int = 0
    tombstones: int = 0
    unkeyed: int = 0
    expected: bool = False

    def __add__(self, other: Self) -> "TopicProfile":
        """Return the profile of both together."""
        ranges = dict(self.ranges)
        for partition, (start, end) in other.ranges.items():
            first, last = ranges.get(partition, (start, end))
            ranges[partition] = (min(first, start), max(last, end))
        by_age = sorted([*self.schema_ids.items(), *other.schema_ids.items()], key=lambda seen: seen[1])
        return TopicProfile(
            self.topic, ranges, dict(by_age), self.key_schema_ids | other.key_schema_ids, self.rows + other.rows,
            self.tombstones + other.tombstones, self.unkeyed + other.unkeyed,
        )  # fmt: skip


def profile_records(batch: DataFrame) -> dict[str, TopicProfile]:
    """Return topic to profile."""
    rows = (
        batch.groupBy(
            "topic",
            "partition",
            schema_id("value").alias("schema_id"),
            schema_id("key").alias("key_schema_id"),
            F.col("value").isNull().alias("tombstone"),
            F.col("key").isNull().alias("unkeyed"),
        )
        .agg(
            F.count("*").alias("rows"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        .collect()
    )
    return _by_topic(rows)


def _by_topic(rows: Iterable[Row]) -> dict[str, TopicProfile]:
    topics: dict[str, TopicProfile] = {}
    for row in rows:
        profile = topics.setdefault(row.topic, TopicProfile(row.topic))
        first, following = profile.ranges.get(row.partition, (row.first, row.last + 1))
        profile.ranges[row.partition] = (min(first, row.first), max(following, row.last + 1))
        profile.rows += row.rows
        if (key_schema := schema_number(row.key_schema_id)) is not None:
            profile.key_schema_ids.add(key_schema)
        if row.unkeyed and not row.tombstone:
            profile.unkeyed += row.rows
        if row.tombstone:
            profile.tombstones += row.rows
        elif (identifier := schema_number(row.schema_id)) is not None:
            profile.schema_ids[identifier] = max(row.last, profile.schema_ids.get(identifier, -1))
    return topics
