"""Verify: agree on a position, read both sides there, compare. See infra/decisions for why it is right under load."""

import time
from collections.abc import Iterable
from contextlib import closing, suppress

from pipelines.sources.base.database import SourceSession
from pipelines.sources.base.errors import SourceLocked
from pipelines.sources.base.tables import SourceTable
from services.stack import lake, lake_files
from services.stack.duckdb_session import open_duckdb
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify
from services.stack.position import Deadline, Position, wait_until_published, wait_until_visible
from services.stack.progress import OnProgress, Progress, silent
from services.stack.records import Decoder
from services.stack.scratch import scratch
from services.stack.source import choose, connect, topics_of
from services.verify import columns, protected_columns, staging
from services.verify.report import Report, TableReport
from services.verify.table_comparison import TableComparison, contract_of

MEMORY = "512MB"
EXAMPLES = 10
ROUNDS = 5


def verify(
    settings: StackSettings,
    tables: Iterable[str] = (),
    on_progress: OnProgress = silent,
    *,
    timeout: float = 300.0,
    examples: int = EXAMPLES,
    memory: str = MEMORY,
) -> Report:
    """Compare the captured tables (all, or those named ``table`` or ``schema.table``) of source and lake.

    Both are read as of one position, so the workload may run. ``timeout``: seconds to wait for the lake to come near,
    and again for Kafka to hold the agreed position. ``memory``: DuckDB's limit; the rest goes to disk. ``examples``:
    differing keys named per table and kind. Raises NotCaughtUp, Unreachable and CannotVerify.
    """
    started, wanted, done = time.monotonic(), set(tables), []
    left_out: list[str] = []
    orphans: list[str] = []
    for _ in range(ROUNDS):
        with connect(settings) as source:
            found, unread = source.tables(), source.why_left_out()
            chosen = choose(found, wanted, unread)
            if not wanted:
                left_out = source.uncaptured_tables()
                left_out += [t.full_name for t in found if t.full_name in unread]
                orphans = _only_in_lake(settings, {(t.schema, t.name) for t in found})
        near = wait_until_visible(settings, timeout, on_progress, but_held=True)
        report, again = _at_one_position(settings, chosen, near, on_progress, timeout, examples, memory)
        done += report.tables
        if not again:
            break
        wanted = {table.full_name for table in again}
    else:
        raise CannotVerify(
            f"{', '.join(sorted(wanted))} kept being created, truncated or changed meanwhile. Run verify again."
        )
    report.tables, report.not_captured, report.only_in_lake = sorted(done, key=lambda t: t.table), left_out, orphans
    report.seconds = time.monotonic() - started
    return report


def _only_in_lake(settings: StackSettings, captured: set[tuple[str, str]]) -> list[str]:
    """Return tables of the lake whose source tables are gone, or have another name now: they stay as they were."""
    pinned = (lake.pin(table) for table in lake.tables(lake.open_catalog(settings), settings))
    return sorted(p.full_name for p in pinned if p and (p.schema, p.source_table) not in captured)


def _at_one_position(
    settings: StackSettings,
    chosen: list[SourceTable],
    near: Position,
    on_progress: OnProgress,
    timeout: float,
    examples: int,
    memory: str,
) -> tuple[Report, list[SourceTable]]:
    pinned = {
        (p.schema, p.source_table): p for t in lake.tables(lake.open_catalog(settings), settings) if (p := lake.pin(t))
    }
    with scratch() as directory, connect(settings) as source:
        snapshot = source.hold_snapshot()
        files_then = {table.full_name: source.storage(table) for table in chosen}
        reached = wait_until_published(settings, Deadline(timeout), on_progress)
        report, again = Report(str(snapshot), reached.log.text), []
        with closing(open_duckdb(settings, directory, memory)) as connection:
            mirrored = {key: end for key, end in near.ends.items() if key[0] not in near.held}
            decoder = Decoder(settings.schema_registry_url)
            comparison = TableComparison(settings, connection, snapshot, mirrored, reached, decoder, on_progress)
            for table in chosen:
                held = near.held.get(topics_of(settings).topic(table.schema, table.name))
                looked = None
                with suppress(SourceLocked), source.transaction():
                    looked = _verify_table(
                        comparison, source, table, pinned.get((table.schema, table.name)), held, examples
                    )
                if looked is None or source.storage(table) != files_then[table.full_name]:
                    again.append(table)
                else:
                    report.tables.append(looked)
        source.release_snapshot()
    return report, again


def _verify_table(
    comparison: TableComparison,
    source: SourceSession,
    table: SourceTable,
    pinned: lake.PinnedTable | None,
    held: str | None,
    examples: int,
) -> TableReport | None:
    """Return the table's report, or None if a later position is needed. Raises SourceLocked.

    Its first rows came after the wait, or it was truncated after the position, which empties it for earlier snapshots
    too.
    """
    started = time.monotonic()
    report = TableReport(table.full_name)
    topic = topics_of(comparison.settings).topic(table.schema, table.name)
    report.problems += [f"the mirror holds it: {held}"] if held else []
    if pinned is None:
        report.rows_source = report.missing = source.count_rows(table)
        if (
            report.missing
            and not held
            and not any(end for (name, _), end in comparison.mirrored.items() if name == topic)
        ):
            return None
        if report.missing:
            report.problems.append("the table isn't in the lake")
        return report
    report.lake_table, report.snapshot_id = pinned.full_name, pinned.snapshot_id
    report.position = dict(pinned.state.positions)
    chosen = protected_columns.plan(table, pinned, contract_of(pinned), comparison.settings.protection_keys)
    report.not_compared = chosen.not_compared
    report.problems += chosen.problems
    report.columns_compared = len(chosen.compared)
    if not chosen.compared or not set(pinned.key) <= {column.name for column in chosen.compared}:
        return report
    overlay = comparison.overlay(pinned, report)
    if overlay is None:
        return None
    if forged := lake_files.count_beyond(comparison.duckdb, pinned, comparison.reached.log.number):
        report.problems.append(
            f"{forged:,} rows come from records with a log position that the source hasn't reached: the connector never"
            f" sent them to {pinned.topic}, and later changes of these rows' keys aren't merged"
        )
    _stage_source(comparison, source, table, chosen)
    comparison.compare(pinned, chosen, overlay, report, examples)
    report.seconds = time.monotonic() - started
    return report


def _stage_source(comparison: TableComparison, source: SourceSession, table: SourceTable, chosen: columns.Plan) -> None:
    total = source.estimate_rows(table)

    def on_rows(rows: int) -> None:
        comparison.on_progress(Progress(table.full_name, "reading the source", rows, total))

    batches = source.rows(table, tuple(column.source for column in chosen.compared))
    staging.stage_source(comparison.duckdb, chosen.compared, batches, on_rows)
