"""What any pipeline tells of its tables in metrics."""

from collections.abc import Mapping

from pipelines.errors import is_unknown_commit
from pipelines.metrics.meter import Meter


class TableMeter:
    """The metrics of a process's tables, each by ``namespace.table``. Used by all its threads."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def records(self, table: str, records: int, changes: Mapping[str, int], broken: Mapping[str, int]) -> None:
        """Tell how many records came, what became of them, and of how many which promise was broken."""
        self._meter.add("lakehouse_table_records_total", records, table=table)
        for name, count in changes.items():
            if count:
                self._meter.add("lakehouse_table_changes_total", count, table=table, outcome=name)
        for promise, rows in broken.items():
            self._meter.add("lakehouse_table_broken_rows_total", rows, table=table, promise=promise)

    def commits(self, table: str, writers: Mapping[str, int]) -> None:
        """Tell how many commits were made, by what wrote them."""
        for writer, commits in writers.items():
            if commits:
                self._meter.add("lakehouse_table_commits_total", commits, table=table, writer=writer)

    def took(self, table: str, stages: Mapping[str, float]) -> None:
        """Tell how many seconds were spent, by stage."""
        for stage, seconds in stages.items():
            self._meter.add("lakehouse_table_stage_seconds_total", seconds, table=table, stage=stage)

    def visible(self, table: str, lag: float) -> None:
        """Tell how many seconds the oldest of what is visible now has taken."""
        self._meter.put("lakehouse_table_visible_lag_seconds", max(0.0, lag), table=table)

    def failed(self, table: str, error: BaseException) -> None:
        """Tell that a table couldn't be brought on."""
        self._meter.add("lakehouse_table_retries_total", table=table)
        if is_unknown_commit(error):
            self._meter.add("lakehouse_table_unknown_commits_total", table=table)

    def held(self, tables: Mapping[str, bool]) -> None:
        """Tell which tables there are, and which of them are held."""
        for table, is_held in tables.items():
            # A counter that isn't there before its first record hides how many came first.
            self._meter.add("lakehouse_table_records_total", 0, table=table)
            self._meter.put("lakehouse_table_held", float(is_held), table=table)
