"""Tell in metrics what became of streams and derived tables."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pipelines.derived.outcome import DerivedOutcome
from pipelines.events.outcome import StreamOutcome
from pipelines.metrics.meter import Meter
from pipelines.metrics.tables import TableMeter


class StreamsMeter:
    """The metrics of the process's tables. Used by all its threads."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._each = meter, TableMeter(meter)

    def brought(self, table: str, outcome: StreamOutcome | DerivedOutcome, seconds: float) -> None:
        """Tell what one go has brought a table (``namespace.table``)."""
        if isinstance(outcome, StreamOutcome):
            self._each.records(table, outcome.rows, asdict(outcome.counts), outcome.broken)
            self._each.commits(table, {"append": outcome.commits})
        else:
            changes = {name: getattr(outcome, name) for name in ("inserted", "updated", "deleted", "late")}
            self._each.records(table, 0, changes, {})
            self._each.commits(table, {"derived": outcome.commits})
        self._each.took(table, {"all": seconds})
        self._meter.put("lakehouse_table_current_timestamp_seconds", time.time() - seconds, table=table)
        if outcome.oldest is not None and outcome.commits:
            self._each.visible(table, (datetime.now(UTC) - outcome.oldest).total_seconds())

    def failed(self, table: str, error: BaseException) -> None:
        """Tell that a table couldn't be brought on."""
        self._each.failed(table, error)

    def held(self, tables: Mapping[str, bool]) -> None:
        """Tell which tables are held."""
        self._each.held(tables)
