"""Tell in metrics what became of streams and derived tables."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pipelines.derived.outcome import DerivedOutcome
from pipelines.events.outcome import StreamOutcome
from pipelines.metrics.meter import Meter


class StreamsMeter:
    """The metrics of the process's tables. Used by all its threads."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def brought(self, table: str, outcome: StreamOutcome | DerivedOutcome, seconds: float) -> None:
        """Tell what one go has brought a table (``namespace.table``)."""
        if isinstance(outcome, StreamOutcome):
            self._meter.add("lakehouse_table_records_total", outcome.rows, table=table)
            counts, writer = asdict(outcome.counts), "append"
            for promise, rows in outcome.broken.items():
                self._meter.add("lakehouse_table_broken_rows_total", rows, table=table, promise=promise)
        else:
            counts = {name: getattr(outcome, name) for name in ("inserted", "updated", "deleted", "late")}
            writer = "derived"
        for name, count in counts.items():
            if count:
                self._meter.add("lakehouse_table_changes_total", count, table=table, outcome=name)
        if outcome.commits:
            self._meter.add("lakehouse_table_commits_total", outcome.commits, table=table, writer=writer)
        self._meter.add("lakehouse_table_stage_seconds_total", seconds, table=table, stage="all")
        self._meter.put("lakehouse_table_current_timestamp_seconds", time.time() - seconds, table=table)
        if outcome.oldest is not None and outcome.commits:
            lag = (datetime.now(UTC) - outcome.oldest).total_seconds()
            self._meter.put("lakehouse_table_visible_lag_seconds", lag, table=table)

    def failed(self, table: str) -> None:
        """Tell that a table couldn't be brought on."""
        self._meter.add("lakehouse_table_retries_total", table=table)

    def held(self, tables: Mapping[str, bool]) -> None:
        """Tell which tables are held."""
        for table, is_held in tables.items():
            self._meter.put("lakehouse_table_held", float(is_held), table=table)
