"""Write changes into a table without a key, which is the sum of its changes: equal rows can't be told apart.

An insert adds a row, a delete takes away one that is equal to the old row in every column, an update does both. Sums
don't depend on an order, so removals are matched with equal rows of the batch first (which then need no writing), then
of the table. A change of which the old row is nowhere is a dead letter, and so is in turn what builds on it: the table
is always the sum of the other changes, and no row is taken away that another change stands for.

The sum is only right where all changes from before the newest one are in it, or a removal could come before its row;
:mod:`pipelines.mirror.table.mirror` sees to that.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.changes.stats import BatchStats
from pipelines.dead_letters.store import rejected_records
from pipelines.lake.commit import commit
from pipelines.ledger.guard import checked_snapshot
from pipelines.ledger.rows import written_before
from pipelines.limits import Limits
from pipelines.merge.changes import MergeInput, PreparedWrite, Strategy
from pipelines.merge.fold import OP, every_event
from pipelines.merge.pruning import Pruning, widened_bounds
from pipelines.merge.statement import MergePlan, append_rows, exchange_sql
from pipelines.schema.columns import TableShape
from pipelines.schema.technical import RECORD
from pipelines.sources.base.change_rows import DELETE, UNKNOWN_ROW
from pipelines.spark.dataframes import as_view, from_rows, persisted
from pipelines.sql import quote

Position = tuple[int, int]

REMOVAL, INSERT, STORED = "removal", "insert", "stored"
POSITION = ("partition", "offset", "log_position")
TECHNICAL_POSITION = (*RECORD, "_lsn")


@dataclass(frozen=True)
class Group:
    """Equal rows: how many the table has, and the changes that add and remove one, by position, in the log's order."""

    stored: int
    inserts: tuple[Position, ...]
    removals: tuple[Position, ...]


@dataclass(frozen=True)
class NetChanges:
    """The net effect of a batch.

    ``changes``: the rows to insert, as of :func:`pipelines.merge.fold.every_event`, and the table's rows to delete, of
    which only the position is given, and ``__op``. ``between``: the offsets of those to delete; None: there are none.
    ``offsets``: all of them, where they are few. ``unknown``: the changes that remove a row which is nowhere
    (``partition``, ``offset``, ``problem``), ``lost`` many.
    """

    changes: DataFrame
    between: tuple[int, int] | None = None
    offsets: tuple[int, ...] = ()
    unknown: DataFrame | None = None
    lost: int = 0

    @property
    def pruning(self) -> Pruning:
        """The rows of the table that it concerns."""
        if self.between is None:
            return Pruning()
        return Pruning(
            {"_kafka_offset": self.between}, listed=("_kafka_offset", self.offsets) if self.offsets else None
        )


@contextmanager
def prepare(changes: MergeInput, _: Strategy, limits: Limits) -> Iterator[PreparedWrite]:
    """Prepare the write of changes to a table without a key. What is prepared holds within the block.

    Rows of the table are deleted, and others inserted.
    """
    batch, cleared = changes.batch, changes.truncated
    with batch.outcome.stage("fold"):
        summed = changes.good.count()
        # Rows that are read again stand beside their former selves, which go when all have been read.
        stored = batch.session.table(changes.table.sql_name).where(f"NOT ({written_before(changes.resynced_from)})")
        found = net_changes(changes.good, changes.shape, changes.stats, stored, cleared, limits.few_removals)
    letters = [] if found.unknown is None else [rejected_records(batch.raw, found.unknown)]
    with as_view(found.changes, batch.profile.topic) as view:
        plan = MergePlan(
            target=changes.table.sql_name,
            changes=view,
            columns=changes.shape.column_names,
            keys=RECORD,
            pruning=found.pruning if cleared is None else Pruning(),
            truncated=cleared,
        )
        write = partial(_write, changes, plan, appends=cleared is None and found.between is None)
        yield PreparedWrite(write, changes.counts(summed, found.lost), letters, "keyless")


def net_changes(
    changes: DataFrame, shape: TableShape, stats: BatchStats, table: DataFrame, truncated: int | None, few_removals: int
) -> NetChanges:
    """Return the net of change rows without a problem and without truncates.

    ``stats``: of these changes and of what a truncate made void. ``truncated``: rows of ``table`` that are older than
    this log position go anyway, and are no match for a removal.
    """
    if not stats.removals:
        return NetChanges(every_event(changes, shape))
    few = stats.removals <= few_removals
    stored = table if truncated is None else table.where(F.col("_lsn") >= truncated)
    with persisted(_entries(changes, shape, _candidates(stored, widened_bounds(stats)), few)) as entries:
        matched = _match(entries)
        found = _summary(matched)
        unknown, lost = None, 0
        if found["unmet"]:
            rejected = unmatched(_groups(entries))
            lost = len(rejected)
            named = from_rows(changes.sparkSession, sorted(rejected), "partition int, offset long")
            unknown = named.withColumn("problem", F.lit(UNKNOWN_ROW))
            # Rows of the table have positions from before these changes.
            changes, left = (_without(rows, F.broadcast(named)) for rows in (changes, entries))
            matched = _match(left)
            found = _summary(matched)
        taken = matched.select("kind", "partition", "offset").localCheckpoint()
    cancelled = taken.where(F.col("kind") == INSERT).select("partition", "offset")
    inserts = every_event(_without(changes.where(F.col("op") != DELETE), cancelled), shape)
    gone = taken.where(F.col("kind") == STORED)
    between = (found["low"], found["high"]) if found["low"] is not None else None
    offsets = tuple(row.offset for row in gone.select("offset").distinct().collect()) if few and between else ()
    return NetChanges(inserts.unionByName(_deletes(gone), allowMissingColumns=True), between, offsets, unknown, lost)


def unmatched(groups: Sequence[Group]) -> set[Position]:
    """Return the changes that can't be made, so that without them no sum is less than nothing.

    Each removes a row of which there aren't enough; and the rows that it would have added are then missing as well.
    """
    added_to = {position: number for number, group in enumerate(groups) for position in group.inserts}
    surplus = [group.stored + len(group.inserts) - len(group.removals) for group in groups]
    removals = [list(group.removals) for group in groups]
    short = [number for number, left in enumerate(surplus) if left < 0]
    rejected = set()
    while short:
        number = short.pop()
        while surplus[number] < 0:
            change = removals[number].pop()
            rejected.add(change)
            surplus[number] += 1
            other = added_to.get(change)
            if other is not None:
                surplus[other] -= 1
                if other != number and surplus[other] < 0:
                    short.append(other)
    return rejected


def _write(changes: MergeInput, plan: MergePlan, summary: Mapping[str, str], appends: bool) -> None:
    """Commit the changes: append them if it ``appends``, for then no row of the table is deleted, else merge.

    Raises RetryBatch where somebody else has committed to the table since.
    """
    session, since = changes.batch.session, checked_snapshot(changes.table, changes.known)
    if appends:
        append_rows(session, plan, tuple(changes.table.column_types), since, summary)
    else:
        commit(session, exchange_sql(plan), summary)


def _candidates(stored: DataFrame, between: Mapping[str, tuple[Any, Any]]) -> DataFrame:
    """Return ``stored`` without rows (and files) that equal no removed one."""
    for name, (low, high) in between.items():
        column = F.col(quote(name))
        stored = stored.where(column.isNull() | column.between(low, high))
    return stored


def _entries(changes: DataFrame, shape: TableShape, stored: DataFrame, few: bool) -> DataFrame:
    """Return all removals, and what they may be matched with.

    The columns are ``kind``, ``partition``, ``offset``, ``log_position`` and the values by which equal rows are found.
    """
    removing = changes.where(F.col("before").isNotNull())
    removals = _identified(removing, {c.name: F.col("before").getField(c.name) for c in shape.columns}, shape, REMOVAL)
    values = [name for name in removals.columns if name.startswith("value_")]
    inserting = changes.where(F.col("op") != DELETE)
    inserts = _identified(inserting, {c.name: F.col("row").getField(c.name) for c in shape.columns}, shape, INSERT)
    rows = _identified(stored, {c.name: F.col(quote(c.name)) for c in shape.columns}, shape, STORED)
    removed_values = removals.select(*values)
    removed_values = F.broadcast(removed_values) if few else removed_values
    equal = [F.col(f"one.{value}").eqNullSafe(F.col(f"other.{value}")) for value in values]
    same = reduce(Column.__and__, equal, F.lit(True))
    supply = inserts.unionByName(rows).alias("one").join(removed_values.alias("other"), same, "left_semi")
    return removals.unionByName(supply)


def _identified(rows: DataFrame, columns: Mapping[str, Column], shape: TableShape, kind: str) -> DataFrame:
    values = [_exact(columns[c.name], c.type.iceberg).alias(f"value_{i}") for i, c in enumerate(shape.columns)]
    position = TECHNICAL_POSITION if kind == STORED else POSITION
    named = [F.col(name).alias(alias) for name, alias in zip(position, POSITION, strict=True)]
    return rows.select(F.lit(kind).alias("kind"), *named, *values)


def _exact(value: Column, iceberg: Any) -> Column:
    """Return a value that is equal only to itself: Spark takes 0.0 and -0.0 for equal, but prints them apart."""
    if isinstance(iceberg, dict) and iceberg["element"] in ("float", "double"):
        return value.cast("array<string>")
    return value.cast("string") if iceberg in ("float", "double") else value


def _match(entries: DataFrame) -> DataFrame:
    """Return the inserts and stored rows that a removal takes away, and the removals that nothing is left for.

    Inserts go first, the older ones before the newer; then the table's rows, likewise.
    """
    group = [name for name in entries.columns if name.startswith("value_")]
    removes = F.col("kind") == REMOVAL
    equal = Window.partitionBy(*group)
    order = Window.partitionBy(*group, removes).orderBy("kind", "log_position", "partition", "offset")
    numbered = entries.select(
        "kind", "partition", "offset",
        F.row_number().over(order).alias("number"),
        F.count_if(removes).over(equal).alias("removals"),
        F.count_if(~removes).over(equal).alias("supply"),
    )  # fmt: skip
    partners = F.when(F.col("kind") == REMOVAL, F.col("supply")).otherwise(F.col("removals"))
    matched = F.col("number") <= partners
    return numbered.where(F.when(F.col("kind") == REMOVAL, ~matched).otherwise(matched))


def _summary(matched: DataFrame) -> Mapping[str, Any]:
    stored = F.col("kind") == STORED
    row = matched.agg(
        F.count_if(F.col("kind") == REMOVAL).alias("unmet"),
        F.min(F.when(stored, F.col("offset"))).alias("low"),
        F.max(F.when(stored, F.col("offset"))).alias("high"),
    ).collect()[0]
    return row.asDict()


def _groups(entries: DataFrame) -> list[Group]:
    names = [name for name in entries.columns if name.startswith("value_")]
    position = F.struct("log_position", "partition", "offset")

    def listed(kind: str) -> Column:
        return F.sort_array(F.collect_list(F.when(F.col("kind") == kind, position))).alias(kind)

    found = entries.groupBy(*names).agg(
        F.count_if(F.col("kind") == STORED).alias(STORED), listed(INSERT), listed(REMOVAL)
    )
    return [
        Group(row[STORED], _positions(row[INSERT]), _positions(row[REMOVAL]))
        for row in found.select(STORED, INSERT, REMOVAL).collect()
    ]


def _positions(rows: Collection[Any]) -> tuple[Position, ...]:
    return tuple((row.partition, row.offset) for row in rows)


def _without(rows: DataFrame, named: DataFrame) -> DataFrame:
    return rows.join(named, ["partition", "offset"], "left_anti")


def _deletes(gone: DataFrame) -> DataFrame:
    position = (F.col("partition").alias("_kafka_partition"), F.col("offset").alias("_kafka_offset"))
    return gone.select(*position, F.lit(DELETE).alias(OP))
