"""Changes: the records of one topic as change rows in the columns that its table shall have, each with its problem."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from pipelines.changes.admit import admit, park
from pipelines.changes.enforce import Enforcement
from pipelines.changes.project import project_rows
from pipelines.changes.stats import StatsRequest, stat_columns
from pipelines.changes.topic_batch import TopicBatch
from pipelines.changes.waiting import firsts, followers
from pipelines.kafka.wire import id_bytes, schema_id
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.schema.plan import Target
from pipelines.schema.versions import TableVersions
from pipelines.sources.debezium.decode import decode
from pipelines.sources.debezium.schemas import Schemas
from pipelines.spark.dataframes import keep_with_stats, release


def decode_changes(
    raw: DataFrame, found: Schemas, wanted: Target, versions: TableVersions, placeholder: str
) -> DataFrame:
    """Change rows, each read by the schema that it was written with. ``found`` has a usable shape."""
    *older, (shape, writers) = found.written
    others = [writer for _, writers in older for writer in writers]
    newest = raw.where(schema_id("value").isNull() | ~_written_by(others)) if others else raw
    keyless = not wanted.keys
    rows = project_rows(decode(newest, shape, writers, found.rejected, placeholder, keyless), shape, wanted, versions)
    for shape, writers in older:
        mine = decode(raw.where(_written_by(writers)), shape, writers, {}, placeholder, keyless)
        rows = rows.unionByName(project_rows(mine, shape, wanted, versions))
    return rows


def _written_by(writers: Iterable[int]) -> Column:
    return schema_id("value").isin([F.lit(id_bytes(writer)) for writer in writers])


def admit_changes(
    rows: DataFrame, part: TopicBatch, shape: TableShape, keys: tuple[str, ...], waiting: DataFrame | None,
    asked: StatsRequest, enforcement: Enforcement | None, protected: ProtectedColumns,
) -> tuple[DataFrame, Row]:  # fmt: skip
    """``rows`` with their problems and their values ``protected``, persisted, and their facts (``asked``: see
    :mod:`pipelines.changes.stats`). ``enforcement``: of the table's contract, if there is one, which is asked of values
    as the source has them. ``waiting``: the keys behind whose letters events wait (see
    :mod:`pipelines.dead_letters.waiting`); events that come after a broken one in this very batch wait as well.
    """
    rows = admit(rows, keys)
    if enforcement is not None:
        rows = enforcement.on(rows, part, shape)
    rows, shape = protected.on(rows, shape), protected.shape(shape)
    if waiting is not None:
        rows = park(rows, followers(part.raw, waiting))
    rows, facts = _kept(rows, shape, keys, asked)
    if not facts.dead:
        return rows, facts
    broken = rows.where(F.col("problem").isNotNull()).select("partition", "offset")
    first = firsts(part.raw.join(F.broadcast(broken), ["partition", "offset"]))
    parked, facts = _kept(park(rows, followers(part.raw, first)), shape, keys, asked)
    release(rows)
    return parked, facts


def _kept(rows: DataFrame, shape: TableShape, keys: tuple[str, ...], asked: StatsRequest) -> tuple[DataFrame, Row]:
    return keep_with_stats(rows, stat_columns(rows, shape, keys, asked), asked.few)
