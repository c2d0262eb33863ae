"""From a stream's bytes to the rows of its table, by a plan that is made once.

The expressions are those of a mirrored table's records, but for the decoding: admit, enforce, protect. Each row has its
problem beside it, so that one run is all that its records take.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.changes.enforce import Enforcement
from pipelines.changes.topic_batch import TopicBatch, TopicOutcome
from pipelines.events.decode import StreamSchema, decode, table_shape
from pipelines.kafka.profile import TopicProfile
from pipelines.kafka.ranges import Ranges
from pipelines.kafka.topic_reader import TopicReader
from pipelines.lake.partition_values import Partitioning
from pipelines.lake.table import LakeTable
from pipelines.protection.columns import ProtectedColumns
from pipelines.schema.columns import TableShape
from pipelines.sources.base.change_rows import FOUND_BROKEN, UNKNOWN_SCHEMA
from pipelines.spark.prepared import PLANNED_ONCE, PreparedPlan
from pipelines.specs.events import EventSpec

PROBLEM, _TOMBSTONES, _BROKEN = "__problem", "__tombstones", "__broken"
PARTITION, OFFSET, INGESTED = "_kafka_partition", "_kafka_offset", "_ingested_at"


@dataclass(frozen=True)
class StreamRows:
    """What a run has given: rows in the table's columns, those that have a problem, and what was counted.

    ``good``: with the values of their partitions; ``bad``: the positions, and the problem of each. ``unknown``: schema
    ids that records name and nobody knew. ``broken``: promise of the contract to how many rows broke it.
    """

    good: pa.Table
    bad: pa.Table
    tombstones: int
    unknown: frozenset[int]
    broken: dict[str, int]


class StreamPlan:
    """A plan for one stream, its schema and its table as they are."""

    def __init__(
        self,
        session: SparkSession,
        spec: EventSpec,
        schema: StreamSchema,
        table: LakeTable,
        records: TopicReader,
        enforcement: Enforcement | None,
        protected: ProtectedColumns,
        partitioning: Partitioning,
    ) -> None:
        self.schema, self.identity, self.partitioning = schema, table.identity, partitioning
        self._topic, self._records = spec.topic, records
        for key, value in PLANNED_ONCE.items():
            session.conf.set(key, value)
        outcome = TopicOutcome(spec.topic)
        raw = records.prepared(session, timed=True)
        rows = stream_rows(raw, session, spec, schema, outcome, enforcement, protected)
        self.not_enforced = outcome.not_enforced
        self._plan = PreparedPlan(partitioning.with_values(rows))

    def run(self, ranges: Ranges) -> StreamRows:
        """Return what these ranges hold."""
        return sorted_out(self._plan.run(self._records.ask(self._topic, ranges)))


def stream_rows(
    raw: DataFrame,
    session: SparkSession,
    spec: EventSpec,
    schema: StreamSchema,
    outcome: TopicOutcome,
    enforcement: Enforcement | None,
    protected: ProtectedColumns,
) -> DataFrame:
    """Return the rows of a stream's raw records, in the table's columns, with what must be known of each."""
    shape: TableShape = table_shape(spec, schema.columns)
    rows = decode(raw, spec, schema, carry=("tombstones",))
    if enforcement is not None:
        rows = enforcement.apply(rows, TopicBatch(raw, TopicProfile(spec.topic), {}, 0, session, outcome), shape)
    rows = protected.protect(rows, shape)
    broken = [F.col(FOUND_BROKEN).alias(_BROKEN)] if FOUND_BROKEN in rows.columns else []
    return rows.select(
        *[F.col("row").getField(name).alias(name) for name in shape.column_names],
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        F.col("committed_at").alias(INGESTED),
        F.col("problem").alias(PROBLEM),
        F.col("tombstones").alias(_TOMBSTONES),
        *broken,
    )


def sorted_out(rows: pa.Table) -> StreamRows:
    """Tell apart what a run has given."""
    tombstones = int(pc.sum(rows[_TOMBSTONES]).as_py() or 0)
    if tombstones < 0:
        # The one row stands for no record that has a value (see pipelines.kafka.worker_records).
        rows, tombstones = rows.slice(0, 0), -1 - tombstones
    is_bad = pc.is_valid(rows[PROBLEM])
    bad = rows.filter(is_bad).select([PARTITION, OFFSET, PROBLEM])
    broken = {}
    if _BROKEN in rows.column_names and rows.num_rows:
        column = rows[_BROKEN].combine_chunks()
        broken = {f.name: int(pc.sum(pc.struct_field(column, f.name)).as_py() or 0) for f in column.type}
    prefix = f"{UNKNOWN_SCHEMA}: "
    named = [text.removeprefix(prefix) for text in pc.unique(bad[PROBLEM]).to_pylist() if text.startswith(prefix)]
    return StreamRows(
        good=rows.filter(pc.invert(is_bad)),
        bad=bad,
        tombstones=tombstones,
        unknown=frozenset(int(text) for text in named if text.isdigit()),
        broken={name: count for name, count in broken.items() if count},
    )
