"""One table at one position: the lake's snapshot, with the topic's tail laid over it, compared with the source."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import duckdb

from pipelines.sources.base.database import Snapshot
from quality import odcs
from quality.contract import Contract
from services.stack import lake
from services.stack.endpoints import StackSettings
from services.stack.offsets import Offsets
from services.stack.position import Position
from services.stack.progress import OnProgress, Progress
from services.stack.records import Decoder, read_range
from services.verify import compare, staging
from services.verify.columns import Plan
from services.verify.fingerprint import Fingerprint, fingerprint_lake
from services.verify.overlay import Overlay, fold
from services.verify.ranges import EVERY_ROW, LakeRange
from services.verify.report import TableReport
from services.verify.tail import Tail


def contract_of(pinned: lake.PinnedTable) -> Contract | None:
    """Return the table's contract, as it was when the process first asked for one. Raises ContractError."""
    return _contracts().get((pinned.schema, pinned.source_table))


@cache
def _contracts() -> Mapping[tuple[str, str], Contract]:
    return odcs.load()


@dataclass
class TableComparison:
    """The comparison of tables at an agreed position.

    ``snapshot``: what of the source it holds. ``reached``: how far the topics reached once they held all of that.
    ``mirrored``: what was in the lake before its tables were looked up.
    """

    settings: StackSettings
    duckdb: duckdb.DuckDBPyConnection
    snapshot: Snapshot
    mirrored: Offsets
    reached: Position
    decoder: Decoder
    on_progress: OnProgress

    def tail_ranges(self, pinned: lake.PinnedTable) -> dict[int, tuple[int, int]]:
        """Return partition to the offsets of the table's topic between its snapshot and the position."""
        starts = self.reached.starts
        return {
            partition: (pinned.state.positions.get(partition, starts.get((topic, partition), 0)), end)
            for (topic, partition), end in self.reached.ends.items()
            if topic == pinned.topic
        }

    def overlay(self, pinned: lake.PinnedTable, report: TableReport) -> Overlay | None:
        """Return what the position has and the snapshot hasn't.

        None, if the table was truncated after the position.
        """
        ranges = self.tail_ranges(pinned)
        offsets = sum(max(0, end - start) for start, end in ranges.values())
        self.on_progress(Progress(report.table, "reading the tail", 0, offsets))
        mirrored = {partition: end for (topic, partition), end in self.mirrored.items() if topic == pinned.topic}
        tail = Tail(self.decoder, self.snapshot, self.settings.unavailable_value, pinned.key, mirrored)
        messages = read_range(self.settings.kafka_bootstrap, pinned.topic, ranges)
        overlay = fold(tail.changes(messages), keyless=not pinned.key, truncated_at=pinned.state.truncated)
        if tail.truncated_later:
            return None
        report.tail_events, report.undecodable = tail.read - tail.later, tail.undecodable_count
        if tail.passed:
            report.problems.append(
                f"the mirror has passed {tail.passed:,} records of {pinned.topic} that no commit of the table accounts"
                " for (was the table dropped or rolled back? `make kill s=mirror` has it read them again)"
            )
        return overlay

    def compare(
        self,
        pinned: lake.PinnedTable,
        chosen: Plan,
        overlay: Overlay,
        report: TableReport,
        examples: int,
        within: LakeRange = EVERY_ROW,
    ) -> None:
        """Compare the source's rows, which are staged, with the lake's, both of the range ``within``."""
        staging.stage_lake(self.duckdb, chosen.compared, pinned, overlay, within)
        self.on_progress(Progress(report.table, "comparing"))
        found = compare.compare(self.duckdb, chosen.compared, pinned.key, examples)
        for name, value in vars(found).items():
            setattr(report, name, value)
        self.duckdb.execute(f"DROP TABLE {staging.SOURCE}")

    def fingerprint(
        self, pinned: lake.PinnedTable, chosen: Plan, overlay: Overlay, report: TableReport, rows: int
    ) -> Fingerprint:
        """Return the fingerprint of the lake's rows, of which the source has so many ``rows``."""
        staging.stage_lake(self.duckdb, chosen.compared, pinned, overlay, with_removed=True)

        def on_rows(done: int) -> None:
            self.on_progress(Progress(report.table, "reading the lake", done, rows))

        return fingerprint_lake(self.duckdb, chosen.compared, not pinned.key, on_rows)
