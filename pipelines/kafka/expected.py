"""Expect a range of a topic to hold what the range before it held, or what its own ends hold.

To profile it first is a pass of its own over all of it. So it is decoded as what it should be, and counted on the way;
if it turns out to be anything else, it is profiled after all. See infra/decisions/042-expected-contents.md.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges, offset_count
from pipelines.kafka.wire import schema_id, schema_number
from pipelines.spark.dataframes import observe

# Of each partition, at either end.
SAMPLE_OFFSETS = 1_000


def expected_profile(before: TopicProfile | None, ranges: Ranges) -> TopicProfile | None:
    """Return what ``ranges`` hold at most, if all records are like those of ``before``; None: these weren't alike."""
    if before is None or len(before.schema_ids) != 1 or len(before.key_schema_ids) > 1 or before.unkeyed:
        return None
    (identifier,), newest = before.schema_ids, max(end for _, end in ranges.values()) - 1
    return TopicProfile(
        before.topic,
        dict(ranges),
        {identifier: newest},
        set(before.key_schema_ids),
        offset_count(ranges),
        expected=True,
    )


def beginning(ranges: Ranges) -> Ranges:
    """Return the first few offsets of each partition."""
    return {partition: (start, min(end, start + SAMPLE_OFFSETS)) for partition, (start, end) in ranges.items()}


def ending(ranges: Ranges) -> Ranges:
    """Return the last few offsets of each partition that aren't its :func:`beginning`."""
    return {p: (max(end - SAMPLE_OFFSETS, beginning(ranges)[p][1]), end) for p, (_, end) in ranges.items()}


def verified(records: DataFrame, profile: TopicProfile) -> tuple[DataFrame, Callable[[], TopicProfile | None]]:
    """Return ``records``, and what to call once an action has read all of them: it returns what they hold.

    It returns None if that isn't what was expected. A ``profile`` that isn't only expected is returned as it is.
    """
    if not profile.expected:
        return records, lambda: profile
    value, key, without_value = schema_id("value"), schema_id("key"), F.col("value").isNull()
    counts = [
        F.count("*").alias("rows"),
        F.count_if(without_value).alias("tombstones"),
        F.count_if(F.col("key").isNull() & ~without_value).alias("unkeyed"),
        *(bound(schema).alias(f"{name} {of}") for of, schema in (("value", value), ("key", key))
          for name, bound in (("least", F.min), ("greatest", F.max))),
    ]  # fmt: skip
    passing, found = observe(records, counts)
    return passing, lambda: _confirmed(found(), profile)


def _confirmed(counts: Row | None, profile: TopicProfile) -> TopicProfile | None:
    if counts is None:
        return None
    values, keys = (
        {schema_number(counts[f"{name} {of}"]) for name in ("least", "greatest")} for of in ("value", "key")
    )
    if values != profile.schema_ids.keys() or keys - {None} != profile.key_schema_ids or counts["unkeyed"]:
        return None
    return TopicProfile(
        profile.topic, profile.ranges, profile.schema_ids, profile.key_schema_ids, counts["rows"], counts["tombstones"]
    )
