"""Make a stream's table, and have it follow the schemas that its records name, as its spec allows."""

from pyspark.sql import SparkSession

from pipelines.checks.audit import AuditBranch
from pipelines.errors import StopPipeline
from pipelines.events.decode import StreamSchema, table_shape
from pipelines.events.evolve import check_columns, create_table, differences, follow
from pipelines.events.outcome import StreamOutcome
from pipelines.events.plan import OFFSET
from pipelines.events.schemas import StreamSchemas
from pipelines.evolve.arrange import Arrangement
from pipelines.kafka.ranges import Ranges, non_empty
from pipelines.kafka.topic_reader import TopicReader
from pipelines.kafka.wire import HEADER_BYTES
from pipelines.lake.catalog import Lake
from pipelines.lake.table import LakeTable
from pipelines.ledger.table_ledger import TableLedger
from pipelines.protection.columns import ProtectedColumns
from pipelines.specs.events import EventSpec
from quality.contract import Contract


class StreamSetup:
    """One stream's table, as its spec, its schemas and its contract want it. Used by one thread at a time."""

    def __init__(
        self, spec: EventSpec, records: TopicReader, schemas: StreamSchemas, ledger: TableLedger,
        protected: ProtectedColumns, contract: Contract | None, audit: AuditBranch | None = None,
    ) -> None:  # fmt: skip
        self._spec, self._records, self._schemas, self._ledger = spec, records, schemas, ledger
        self._protected, self._arrangement, self._audit = protected, Arrangement(spec.layout, contract), audit

    def first_schema(self, ranges: Ranges) -> None:
        """Meet the schemas that the first records name. Raises StopPipeline where there are none."""
        values = (message.value() for message in self._records.peek(self._spec.topic, _first(ranges)))
        named = {int.from_bytes(v[1:HEADER_BYTES], "big") for v in values if v and len(v) > HEADER_BYTES and v[0] == 0}
        if not self._schemas.begin(named):
            raise StopPipeline(
                f"{self._spec.table}: the registry has no schema under the subject {self._spec.registry_subject}, nor"
                f" one that the first records of {self._spec.topic} name. Register one, or say the columns in its spec"
                " (columns, json_schema); it is tried again by itself."
            )

    def ready(self, session: SparkSession, schema: StreamSchema, known: bool, outcome: StreamOutcome) -> LakeTable:
        """Return the table with what the schema says; ``known``: it has had that before. Raises StopPipeline."""
        shape = table_shape(self._spec, schema.columns)
        table = self._ledger.table
        if table is None:
            check_columns(self._spec, shape)
            self._protected.check(shape.columns, (OFFSET,))
            table = create_table(Lake(session), self._spec, shape, self._protected)
            table = self._ledger.table = table if self._audit is None else self._audit.begin(table)
            outcome.changes.append("created")
        elif not known:
            check_columns(self._spec, shape)
            self._protected.check(shape.columns, (OFFSET,))
            self._evolve(table, schema, outcome)
        arranged = self._arrangement.apply(table)
        outcome.changes += arranged.changes
        outcome.layout_refused = arranged.refused
        return table

    def _evolve(self, table: LakeTable, schema: StreamSchema, outcome: StreamOutcome) -> None:
        """Give the table what it lacks of the schema, of which the spec allows all."""
        shape = self._protected.shape(table_shape(self._spec, schema.columns))
        found = differences(table, shape)
        if found:
            follow(table, shape)
            outcome.changes += [str(change) for change in found]


def _first(ranges: Ranges, records: int = 100) -> Ranges:
    return non_empty({partition: (start, min(end, start + records)) for partition, (start, end) in ranges.items()})
