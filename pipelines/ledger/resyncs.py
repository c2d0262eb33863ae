"""Resyncs: a table's rows read from the source again, because events of them are lost.

A resync says, for a topic: from ``start`` on, up to ``end``, every row that the source has is in the topic anew, or a
change of it is. So once a table has reached ``end``, a row that was last written by a record before ``start`` isn't in
the source any more, and is deleted. That stays true, whatever is read again and however often.

`lakehouse resync` writes both facts into a table of the lake, the first before anything is read again.
"""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.kafka.ranges import Positions, Ranges, non_empty, parse_positions
from pipelines.lake.catalog import Lake
from pipelines.lake.names import NAMESPACE, RESYNCS
from pipelines.lake.table import LakeTable
from pipelines.ledger.entries import Ledger
from pipelines.ledger.rows import written_before

# The steps that a command writes down. ANEW: it starts, of a topic that was renewed.
START, ANEW, END = "start", "anew", "end"


@dataclass(frozen=True)
class Resync:
    """One resync of a topic.

    ``start``: how far the topic reached before anything was read again; ``end``: how far it did once all was. None: it
    isn't yet, or never will be (its command was ended). ``anew``: the topic was renewed, and a table forgets positions
    of an earlier one first.
    """

    id: str
    start: Positions
    end: Positions | None = None
    anew: bool = False

    @property
    def stale(self) -> str:
        """The condition for a mirrored table's row that was last written before the start."""
        return written_before(self.start)

    def split(self, ranges: Ranges) -> tuple[Ranges, Ranges]:
        """Return the parts of ``ranges`` before and after the start."""
        first = {p: (start, min(end, max(start, self.start.get(p, 0)))) for p, (start, end) in ranges.items()}
        rest = {p: (first[p][1], end) for p, (_, end) in ranges.items()}
        return non_empty(first), non_empty(rest)

    def begun(self, reached: Ledger) -> Ledger:
        """Return the ledger of a table that has reached the start.

        What it has truncated says nothing of what comes now: log positions may begin anew. Unless it has come further
        already, when records of other partitions may still be from before a truncate.
        """
        exactly = all(reached.positions.get(partition, 0) == offset for partition, offset in self.start.items())
        truncated = None if exactly else reached.truncated
        return replace(reached, truncated=truncated, partitions=len(self.start), resync=self.id, resynced=None)

    def begun_anew(self, ledger: Ledger, topic_id: str, ended: bool) -> Ledger:
        """Return the ledger of a table that has nothing yet of its topic, which was renewed and has this identity.

        What it reads before the start may be of a connector that has begun anew by itself. ``ended``: nothing is left
        to do.
        """
        return replace(
            ledger, positions={}, truncated=None, partitions=len(self.start), topic_id=topic_id, resync=self.id,
            resynced=0 if ended else None,
        )  # fmt: skip

    def runs(self, ledger: Ledger) -> bool:
        """Return whether it has begun in a table with this ledger, and hasn't ended."""
        return ledger.resync == self.id and ledger.resynced is None

    def ends(self, reached: Ledger) -> bool:
        """Return whether everything that is still in the source has been read again."""
        return self.end is not None and self.runs(reached) and reached.reaches(self.end)

    def awaited_by(self, ledger: Ledger) -> bool:
        """Return whether a table with this ledger has something left to do for it."""
        return ledger.resync != self.id or (self.end is not None and ledger.resynced is None)


def replaces_rows(resync: Resync | None, ledger: Ledger) -> bool:
    """Return whether all rows of a table with this ledger are still to be read again, or being read."""
    return resync is not None and (ledger.resync != resync.id or resync.runs(ledger))


def check_partitions(topic: str, ledger: Ledger, count: int, resync: Resync | None) -> int:
    """Return how many partitions the topic had by its ledger; ``count``, how many it has, where the ledger doesn't say.

    Raises StopPipeline if it has more now: keys may have moved, and two partitions have no order. But not where a
    resync begins with as many.
    """
    known = ledger.partitions or count
    if count > known and (resync is None or len(resync.start) < count):
        raise StopPipeline(
            f"{topic} was given partitions ({known} before, {count} now): keys may have moved to other ones, and the"
            f" order of their changes with them. Nothing was skipped or merged. {_advice(topic, 'partitions-added')}"
        )
    return known


def check_lost(topic: str, lost: Ranges, resync: Resync | None) -> None:
    """Raise StopPipeline unless the resync makes up for the offsets that Kafka has lost."""
    if resync is not None and all(end <= resync.start.get(partition, 0) for partition, (_, end) in lost.items()):
        return
    listing = ", ".join(
        f"{start} to {end - 1} of partition {partition}" for partition, (start, end) in sorted(lost.items())
    )
    raise StopPipeline(
        f"the lake lacks offsets of {topic} that Kafka doesn't hold any more: {listing}. Nothing was skipped or merged."
        f" {_advice(topic, 'offsets-lost')}"
    )


def remove_stale(session: SparkSession, table: LakeTable, resync: Resync) -> int:
    """Delete the rows that weren't read again, and return how many. Repeatable."""
    found = session.table(table.sql_name).where(resync.stale).count()
    if found:
        session.sql(f"DELETE FROM {table.sql_name} WHERE {resync.stale}")
    return found


def _advice(topic: str, page: str) -> str:
    return f"Run `lakehouse resync {topic.split('.', 1)[1]}` (infra/runbooks/{page}.md)."


class Resyncs:
    """The newest resync of each topic, as of the last ``refresh``."""

    def __init__(self, spark: SparkSession) -> None:
        self._session, self._lake = spark.newSession(), Lake(spark)
        self._snapshot: int | None = None
        self._newest: dict[str, Resync] = {}

    def refresh(self) -> bool:
        """Look again, if anything has come since; return whether it has."""
        table = self._lake.table(NAMESPACE, RESYNCS)
        if table is None or table.snapshot_id == self._snapshot:
            return False
        rows = self._session.table(table.sql_name).orderBy("at").collect()
        ends = {row.id: parse_positions(row.positions) for row in rows if row.step == END}
        self._newest = {
            row.topic: Resync(row.id, parse_positions(row.positions), ends.get(row.id), row.step == ANEW)
            for row in rows
            if row.step in (START, ANEW)
        }
        self._snapshot = table.snapshot_id
        return True

    def of(self, topic: str) -> Resync | None:
        """Return the newest resync of the topic."""
        return self._newest.get(topic)
