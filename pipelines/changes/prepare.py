"""Turn the records of one topic into change rows in the columns that its table shall have, each with its problem."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.changes.admit import admit, park
from pipelines.changes.enforce import Enforcement
from pipelines.changes.project import project_rows
from pipelines.changes.stats import BatchStats, StatsRequest, stat_columns
from pipelines.changes.topic_batch import TopicBatch
from pipelines.changes.waiting import firsts, followers
from pipelines.kafka.wire import id_bytes, schema_id
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import TargetSchema
from pipelines.schema.versions import TableVersions
from pipelines.sources.base.source import Schemas, StreamSource
from pipelines.spark.dataframes import keep_with_stats, release


def decode_changes(
    raw: DataFrame,
    found: Schemas,
    target: TargetSchema,
    versions: TableVersions,
    source: StreamSource,
    carry: tuple[str, ...] = (),
) -> DataFrame:
    """Return change rows, each decoded by the schema that it was written with. ``found`` has a usable shape.

    ``carry``: columns of ``raw`` that they have as well.
    """
    *older, (shape, writers) = found.written
    others = [writer for _, writers in older for writer in writers]
    newest = raw.where(schema_id("value").isNull() | ~_written_by(others)) if others else raw
    keyless = not target.keys
    rows = project_rows(source.decode(newest, shape, writers, found.rejected, keyless, carry), shape, target, versions)
    for shape, writers in older:
        mine = source.decode(raw.where(_written_by(writers)), shape, writers, {}, keyless, carry)
        rows = rows.unionByName(project_rows(mine, shape, target, versions))
    return rows


def _written_by(writers: Iterable[int]) -> Column:
    return schema_id("value").isin([F.lit(id_bytes(writer)) for writer in writers])


def admit_changes(
    rows: DataFrame, batch: TopicBatch, shape: TableShape, keys: tuple[str, ...], waiting: DataFrame | None,
    request: StatsRequest, enforcement: Enforcement | None, protected: ProtectedColumns,
) -> tuple[DataFrame, BatchStats]:  # fmt: skip
    """Return ``rows`` with their problems and their values ``protected``, persisted, and their stats.

    ``enforcement``: of the table's contract, if there is one, which is asked of values as the source has them.
    ``waiting``: the keys behind whose letters events wait (see :mod:`pipelines.dead_letters.waiting`); events that come
    after a broken one in this very batch wait as well.
    """
    rows, shape = ready_changes(rows, batch, shape, keys, enforcement, protected)
    if waiting is not None:
        rows = park(rows, followers(batch.raw, waiting))
    rows, stats = _keep_with_stats(rows, shape, keys, request)
    if not stats.dead:
        return rows, stats
    broken = rows.where(F.col("problem").isNotNull()).select("partition", "offset")
    first = firsts(batch.raw.join(F.broadcast(broken), ["partition", "offset"]))
    parked, stats = _keep_with_stats(park(rows, followers(batch.raw, first)), shape, keys, request)
    release(rows)
    return parked, stats


def ready_changes(
    rows: DataFrame, batch: TopicBatch, shape: TableShape, keys: tuple[str, ...], enforcement: Enforcement | None,
    protected: ProtectedColumns,
) -> tuple[DataFrame, TableShape]:  # fmt: skip
    """Return ``rows`` with their problems and their values ``protected``, and the shape that they have then."""
    rows = admit(rows, keys)
    if enforcement is not None:
        rows = enforcement.apply(rows, batch, shape)
    return protected.protect(rows, shape), protected.shape(shape)


def _keep_with_stats(
    rows: DataFrame, shape: TableShape, keys: tuple[str, ...], request: StatsRequest
) -> tuple[DataFrame, BatchStats]:
    stored, found = keep_with_stats(rows, stat_columns(rows, shape, keys, request), request.few)
    return stored, BatchStats.of(found)
