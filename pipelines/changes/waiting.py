"""Which records wait behind a dead letter of their key. Pure."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.kafka.wire import is_replayed


def followers(raw: DataFrame, first: DataFrame) -> DataFrame:
    """``partition`` and ``offset`` of the records of ``raw`` that must wait.

    ``first``: by ``partition`` and ``key``, the offset ``parked_at`` of the key's first open letter.
    """
    mine = raw.where(F.col("key").isNotNull() & F.col("value").isNotNull() & ~is_replayed(F.col("headers")))
    behind = mine.join(F.broadcast(first), ["partition", "key"]).where(F.col("offset") > F.col("parked_at"))
    return behind.select("partition", "offset")


def firsts(letters: DataFrame, *by: str) -> DataFrame:
    """By ``partition`` and ``key``, and ``by`` what else, the first offset of ``letters``, as ``parked_at``."""
    keyed = letters.where(F.col("key").isNotNull())
    return keyed.groupBy(*by, "partition", "key").agg(F.min("offset").alias("parked_at"))
