"""Park the later events of a key that has a dead letter, so that each key's order is kept.

A letter is open until somebody replays or discards it (a row in the table of actions). A replayed record is a new
record of its topic, and passes.
"""

from collections.abc import Set

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.changes.waiting import firsts
from pipelines.dead_letters import actions
from pipelines.lake import names
from pipelines.lake.catalog import Lake
from pipelines.lake.names import DEAD_LETTERS, NAMESPACE
from pipelines.lake.table import LakeTable
from pipelines.protection.functions import Vault
from pipelines.protection.letters import open_key
from pipelines.spark.dataframes import from_arrow

POSITION = ("topic", "partition", "offset")


class WaitingKeys:
    """The keys that have open letters, as of the last ``refresh``. ``vault``: by which sealed ones are opened."""

    def __init__(self, spark: SparkSession, vault: Vault | None = None) -> None:
        self._session, self._lake, self._vault = spark.newSession(), Lake(spark), vault
        self._snapshots: tuple[int | None, int | None] = (None, None)
        self._open: dict[str, DataFrame] = {}
        self._keys: dict[str, frozenset[bytes]] = {}
        # By action and topic.
        self._decided: dict[tuple[str, str], dict[int, int]] = {}

    def refresh(self) -> bool:
        """Look again, if letters or actions have come since; return whether there are actions that weren't known."""
        letters, done = (
            self._lake.table(NAMESPACE, DEAD_LETTERS),
            self._lake.table(names.NAMESPACE, names.DEAD_LETTER_ACTIONS),
        )
        now = (_snapshot(letters), _snapshot(done))
        decided = now[1] != self._snapshots[1]
        if now == self._snapshots:
            return False
        acts = None if done is None else self._session.table(done.sql_name)
        if acts is not None:
            self._decided = _decisions(acts)
        if letters is None:
            self._snapshots = now
            return decided
        key = F.col("key") if self._vault is None else open_key(self._vault)
        left = self._session.table(letters.sql_name).select(*POSITION, key.alias("key"))
        if acts is not None:
            closed = acts.where(F.col("action").isin(*actions.CLOSED)).select(*POSITION)
            left = left.join(closed, list(POSITION), "left_anti")
        self._open = self._on_driver(left)
        self._snapshots = now
        return decided

    def _on_driver(self, letters: DataFrame) -> dict[str, DataFrame]:
        """Return by topic what :func:`followers` takes, with its rows on the driver.

        So no executor that is lost takes any along. A cache isn't used either, for Spark takes an Iceberg table's older
        snapshot, if it has that, for the newest.
        """
        rows = firsts(letters, "topic").toArrow()
        topics = pc.unique(rows["topic"]).to_pylist()
        found = {topic: rows.filter(pc.field("topic") == topic).drop_columns(["topic"]) for topic in topics}
        self._keys = {topic: frozenset(each["key"].to_pylist()) for topic, each in found.items()}
        return {topic: from_arrow(self._session, each) for topic, each in found.items()}

    def of(self, topic: str) -> DataFrame | None:
        """Return what :func:`followers` takes, for this topic; None: no key of it waits."""
        return self._open.get(topic)

    def keys(self, topic: str) -> Set[bytes]:
        """Return the keys of the topic's records that have open letters."""
        return self._keys.get(topic, frozenset())

    def accepted(self, topic: str) -> dict[int, int]:
        """Return partition to the offset below which a person has let any number of letters pass."""
        return self._decided.get((actions.ACCEPTED, topic), {})

    def given_up(self, topic: str) -> dict[int, int]:
        """Return partition to the offset below which a person has given up what a held table lacks."""
        return self._decided.get((actions.GIVEN_UP, topic), {})


def _decisions(acts: DataFrame) -> dict[tuple[str, str], dict[int, int]]:
    mine = acts.where(F.col("action").isin(actions.ACCEPTED, actions.GIVEN_UP))
    found: dict[tuple[str, str], dict[int, int]] = {}
    for row in mine.groupBy("action", "topic", "partition").agg(F.max("offset").alias("end")).collect():
        found.setdefault((row.action, row.topic), {})[row.partition] = row.end
    return found


def _snapshot(table: LakeTable | None) -> int | None:
    return None if table is None else table.snapshot_id
