"""Parking: while a key has a dead letter, its later events wait behind it, so that each key's order is kept.

A letter is open until somebody replays or discards it (a row in the table of actions). A replayed record is a new
record of its topic, and passes.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.deadletters import NAMESPACE, TABLE
from pipelines.iceberg import Lake, LakeTable
from pipelines.profile import is_replayed

ACTIONS = "dead_letter_actions"
POSITION = ("topic", "partition", "offset")


def followers(raw: DataFrame, first: DataFrame) -> DataFrame:
    """``partition`` and ``offset`` of the records of ``raw`` that must wait.

    ``first``: by ``partition`` and ``key``, the offset ``parked_at`` of the key's first open letter.
    """
    mine = raw.where(F.col("key").isNotNull() & F.col("value").isNotNull() & ~is_replayed(F.col("headers")))
    behind = mine.join(F.broadcast(first), ["partition", "key"]).where(F.col("offset") > F.col("parked_at"))
    return behind.select("partition", "offset")


def firsts(letters: DataFrame) -> DataFrame:
    """By ``partition`` and ``key`` the first offset of ``letters``, as ``parked_at``."""
    keyed = letters.where(F.col("key").isNotNull())
    return keyed.groupBy("partition", "key").agg(F.min("offset").alias("parked_at"))


class Parking:
    """The keys that have open letters, as of the last ``refresh``."""

    def __init__(self, spark: SparkSession) -> None:
        self._session, self._lake = spark.newSession(), Lake(spark)
        self._seen: tuple[int | None, int | None] = (None, None)
        self._open: dict[str, DataFrame] = {}

    def refresh(self) -> None:
        """Look again, if letters or actions have come since."""
        letters, actions = self._lake.table(NAMESPACE, TABLE), self._lake.table(NAMESPACE, ACTIONS)
        now = (_snapshot(letters), _snapshot(actions))
        if letters is None or now == self._seen:
            return
        left = self._session.table(letters.sql_name).select(*POSITION, "key")
        if actions is not None:
            left = left.join(self._session.table(actions.sql_name).select(*POSITION), list(POSITION), "left_anti")
        left = left.localCheckpoint()
        topics = [row.topic for row in left.where(F.col("key").isNotNull()).select("topic").distinct().collect()]
        self._open = {topic: firsts(left.where(F.col("topic") == topic)) for topic in topics}
        self._seen = now

    def of(self, topic: str) -> DataFrame | None:
        """What :func:`followers` takes, for this topic; None: no key of it waits."""
        return self._open.get(topic)


def _snapshot(table: LakeTable | None) -> int | None:
    return None if table is None else table.snapshot_id
