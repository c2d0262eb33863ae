"""A look: one chunk of some tables, read from the source in one short transaction, and compared with the lake there.

The source's transaction ends before anything is waited for, so that it never holds back vacuum for long. A large table
that no key cuts into chunks is read whole, and only counted and summed up.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from pipelines.sources.base.database import Snapshot, SourceSession
from pipelines.sources.base.errors import SourceLocked, SourceUnreadable
from pipelines.sources.base.tables import EVERY_KEY, KeyRange, SourceTable
from services.stack import lake
from services.stack.duckdb_session import open_duckdb
from services.stack.errors import CannotVerify
from services.stack.offsets import Offsets, kafka
from services.stack.position import Deadline, wait_until_published
from services.stack.progress import OnProgress, Progress
from services.stack.records import Decoder
from services.stack.scratch import scratch
from services.stack.source import connect, topics_of
from services.verifier.settings import VerifierSettings
from services.verify import columns, protected_columns, staging
from services.verify.fingerprint import Fingerprint, fingerprint_source
from services.verify.ranges import EVERY_ROW, lake_range
from services.verify.report import Difference, TableReport
from services.verify.rounds import ChunkResult, Finding, RowCounts, VerifiedPosition
from services.verify.table_comparison import TableComparison, contract_of

MEMORY = "128MB"
KEYS = 100
PUBLISHED_SECONDS = 60.0
LONGEST_TAIL = 200_000


@dataclass(frozen=True)
class Job:
    """What to look at: keys after ``within.after``, as many as a chunk has; or again exactly those of ``finding``."""

    table: SourceTable
    within: KeyRange
    finding: Finding | None = None


@dataclass(frozen=True)
class Incomparable:
    """Why a table can't be compared."""

    reason: str


@dataclass(frozen=True)
class Postponement:
    """Why a table can't be compared at this position."""

    reason: str


Outcome = ChunkResult | Incomparable | Postponement
# What is wrong with one table keeps no other waiting.
_UNREADABLE = (CannotVerify, SourceUnreadable, pa.ArrowInvalid, duckdb.Error)


@dataclass(frozen=True)
class _Staged:
    """Rows of a chunk, in DuckDB. ``fingerprint``: of a whole table, of which it has no rows."""

    job: Job
    pinned: lake.PinnedTable
    plan: columns.Plan
    within: KeyRange
    rows: int
    mark: VerifiedPosition
    fingerprint: Fingerprint | None = None


def look(settings: VerifierSettings, jobs: Sequence[Job], on_progress: OnProgress) -> Iterator[tuple[Job, Outcome]]:
    """Return what became of each job; of as many as make up a chunk's number of rows, and at least of the first.

    Raises the errors of :mod:`services.verify`, the source, PyIceberg, Kafka and DuckDB.
    """
    topics = kafka(settings)
    held, mirrored = topics.held(), topics.mirrored()
    for job in jobs:
        if reason := held.get(_topic(settings, job.table)):
            yield job, Postponement(f"the mirror holds it: {reason}")
    catalog = lake.open_catalog(settings)
    free = [job for job in jobs if _topic(settings, job.table) not in held]
    pinned = [(job, _pin(catalog, settings, job.table)) for job in free]
    with (
        scratch(settings.state_dir / "scratch") as directory,
        closing(open_duckdb(settings, directory, MEMORY)) as connection,
    ):
        outcomes, staged, snapshot = _read_source(settings, connection, pinned, mirrored, on_progress)
        yield from outcomes
        if not staged:
            return
        reached = wait_until_published(settings, Deadline(PUBLISHED_SECONDS), on_progress)
        decoder = Decoder(settings.schema_registry_url)
        at = TableComparison(settings, connection, snapshot, mirrored, reached, decoder, on_progress)
        for number, chunk in enumerate(staged):
            try:
                yield chunk.job, _compared(at, chunk, number)
            except _UNREADABLE as error:
                yield chunk.job, _unreadable(error)


def _pin(catalog: Catalog, settings: VerifierSettings, table: SourceTable) -> lake.PinnedTable | None:
    try:
        return lake.pin(catalog.load_table((settings.namespace(table.schema), table.name)))
    except NoSuchTableError:
        return None


def _read_source(
    settings: VerifierSettings,
    connection: duckdb.DuckDBPyConnection,
    pinned: Sequence[tuple[Job, lake.PinnedTable | None]],
    mirrored: Offsets,
    on_progress: OnProgress,
) -> tuple[list[tuple[Job, Outcome]], list[_Staged], Snapshot]:
    """Outcomes that need no comparison, and the chunks that do, all of one snapshot of the source."""
    outcomes: list[tuple[Job, Outcome]] = []
    staged: list[_Staged] = []
    rows = 0
    with connect(settings) as source:
        position = source.log_position()
        mark = VerifiedPosition(log_position=position.text, at=position.at, snapshot_id=None)
        snapshot = source.hold_snapshot()
        for job, pin in pinned:
            found: _Staged | Outcome
            try:
                with source.transaction():
                    if pin is None:
                        found = _not_in_the_lake(settings, source, job, mark, mirrored)
                    else:
                        found = _stage(settings, source, connection, job, pin, mark, on_progress)
            except SourceLocked:
                found = Postponement("somebody is changing it")
            except _UNREADABLE as error:
                found = _unreadable(error)
            if isinstance(found, _Staged):
                if found.fingerprint is None:
                    connection.execute(f"ALTER TABLE {staging.SOURCE} RENAME TO {staging.SOURCE}_{len(staged):d}")
                staged.append(found)
                rows += found.rows
            else:
                outcomes.append((job, found))
            if rows >= settings.verifier_chunk_rows:
                break
        source.release_snapshot()
    return outcomes, staged, snapshot


def _not_in_the_lake(
    settings: VerifierSettings, source: SourceSession, job: Job, mark: VerifiedPosition, mirrored: Offsets
) -> Outcome:
    topic = _topic(settings, job.table)
    seen = ChunkResult(after=None, upto=None, mark=mark)
    if not source.has_more_rows(job.table, 0):
        return seen
    if any(end for (name, _), end in mirrored.items() if name == topic):
        return seen.model_copy(update={"problems": ("the table isn't in the lake",)})
    return Postponement("its first rows aren't in the lake yet")


def _stage(
    settings: VerifierSettings,
    source: SourceSession,
    connection: duckdb.DuckDBPyConnection,
    job: Job,
    pinned: lake.PinnedTable,
    mark: VerifiedPosition,
    on_progress: OnProgress,
) -> _Staged | Outcome:
    table, within, most = job.table, job.within, settings.verifier_chunk_rows
    mark = mark.model_copy(update={"snapshot_id": pinned.snapshot_id})
    files_then = source.storage(table)
    plan = protected_columns.plan(table, pinned, contract_of(pinned), settings.protection_keys)
    if set(table.key) != set(pinned.key) or not set(table.key) <= {column.name for column in plan.compared}:
        return ChunkResult(after=None, upto=None, mark=mark, problems=plan.problems)
    if not plan.compared:
        return Incomparable("none of its columns can be compared")
    # What the lake has as another type may have another order.
    other = any(column.kind != column.source.duckdb_type for column in plan.compared if column.name in table.key)
    in_chunks = not other and source.has_chunks(table)
    whole = not in_chunks and source.has_more_rows(table, most)
    if not in_chunks:
        within = EVERY_KEY
    elif job.finding is None:
        within = replace(within, upto=source.end_of_chunk(table, within.after, most))
    batches = source.rows(table, tuple(column.source for column in plan.compared), within)
    if whole:
        total = source.estimate_rows(table)

        def on_rows(done: int) -> None:
            on_progress(Progress(table.full_name, "reading the source", done, total))

        summed_up = fingerprint_source(connection, plan.compared, batches, on_rows)
        staged = _Staged(job, pinned, plan, within, summed_up.rows, mark, summed_up)
    else:
        rows = staging.stage_source(connection, plan.compared, batches, lambda _: None)
        staged = _Staged(job, pinned, plan, within, rows, mark)
    if source.storage(table) != files_then:
        return Postponement("it was truncated meanwhile")
    return staged


def _compared(at: TableComparison, chunk: _Staged, number: int) -> Outcome:
    table, pinned = chunk.job.table, chunk.pinned
    offsets = sum(max(0, end - start) for start, end in at.tail_ranges(pinned).values())
    if offsets > LONGEST_TAIL:
        return Postponement(f"the lake is more than {LONGEST_TAIL:,} offsets behind")
    report = TableReport(table.full_name, problems=list(chunk.plan.problems))
    overlay = at.overlay(pinned, report)
    if overlay is None:
        return Postponement("it was truncated meanwhile")
    ends = {partition: end for (topic, partition), end in at.reached.ends.items() if topic == pinned.topic}
    seen = ChunkResult(after=chunk.within.after, upto=chunk.within.upto, mark=chunk.mark, rows=chunk.rows, ends=ends)
    if chunk.fingerprint is not None:
        in_lake = at.fingerprint(pinned, chunk.plan, overlay, report, chunk.rows)
        differing = max(abs(in_lake.rows - chunk.rows), int(in_lake != chunk.fingerprint))
        counts = RowCounts(source=chunk.rows, lake=in_lake.rows) if differing else None
        return seen.model_copy(update={"more": differing, "counts": counts, "problems": tuple(report.problems)})
    at.duckdb.execute(f"DROP TABLE IF EXISTS {staging.SOURCE}")
    at.duckdb.execute(f"ALTER TABLE {staging.SOURCE}_{number:d} RENAME TO {staging.SOURCE}")
    bounded = chunk.within != EVERY_KEY
    within = lake_range(chunk.within, table.key, chunk.plan.compared) if bounded else EVERY_ROW
    at.compare(pinned, chunk.plan, overlay, report, KEYS, within)
    named = report.examples if pinned.key else []
    repeats = report.duplicates - sum(found.count - 1 for found in named if found.kind == "duplicate")
    others = report.differing + report.missing + report.extra - sum(found.kind != "duplicate" for found in named)
    keys = {_named(found): found.kind for found in named}
    return seen.model_copy(update={"keys": keys, "more": repeats + others, "problems": tuple(report.problems)})


def _unreadable(error: Exception) -> Postponement:
    """Return why a table can't be read. Only our own messages are told whole: others may hold values of rows."""
    return Postponement(str(error) if isinstance(error, CannotVerify) else f"it can't be read: {type(error).__name__}")


def _topic(settings: VerifierSettings, table: SourceTable) -> str:
    return topics_of(settings).topic(table.schema, table.name)


def _named(found: Difference) -> str:
    return ", ".join(f"{name}={value}" for name, value in found.key.items())
