"""Work: checks, maintenance, replays and resyncs, from the tables in which they are recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby

from openlineage.client.event_v2 import RunEvent

from lineage import facets
from lineage.events import COMPLETE, FAIL, START, Read, Written, event, run_id
from lineage.names import job
from pipelines.dead_letters import actions
from pipelines.lake import names
from pipelines.lake.names import CHECK_RUNS, MAINTENANCE, RESYNCS
from pipelines.ledger.resyncs import END
from pipelines.maintenance.record import ANSWERED
from services.checker.record import RUN, CheckRun, with_results
from services.lineage.follow.records import Records, Row
from services.lineage.follow.world import SPARK, Mirrored, World, committed_at
from services.stack.lake import lineage


def checks() -> Records:
    """Checks of contracts. One that finds a broken promise is complete; one that couldn't ask has failed."""
    return Records(CHECK_RUNS, "started_at", RUN, _checks)


def maintenance() -> Records:
    """Compactions, expiries and the like."""
    columns = ("table", "task", "why", "at", "seconds", "bytes", "added", "error")
    return Records(MAINTENANCE, "at", columns, _maintenance)


def replays() -> Records:
    """Dead letters that were put back into their topic."""
    return Records(names.DEAD_LETTER_ACTIONS, "at", ("topic", "action", "because", "at"), _replays)


def resynced() -> Records:
    """Return tables that were read from the source again."""
    return Records(RESYNCS, "at", ("id", "topic", "step", "at"), _resyncs)


def _checks(world: World, rows: list[Row]) -> Iterator[RunEvent]:
    runs = with_results(world.catalog, (CheckRun(**row) for row in rows))
    for run in runs:
        table = world.of_name(run.table)
        if table is None:
            continue
        name, about = table.lake(run.snapshot_id or None)
        found = [{"name": r.name, "kind": r.kind, "column": r.column, "success": r.success}
                 for r in run.results if r.success is not None]  # fmt: skip
        counted = max((r.elements for r in run.results if r.elements and not r.since), default=None)
        read = Read(name, about, facets.assertions(found, counted) if found else {})
        does = job("check", run.table)
        kind = facets.job_type(False, "GREAT_EXPECTATIONS", f"Checks what the contract of {run.table} promises.")
        began, identity = run.started_at, run_id(run.started_at, "check", run.run)
        yield event(START, began, identity, does, [Read(name, about)], [], world.engine, kind)
        ended = world.engine | (facets.error(run.error) if run.error else {})
        yield event(FAIL if run.error else COMPLETE, began + timedelta(seconds=run.seconds), identity, does,
                    [read], [], ended, kind)  # fmt: skip


def _maintenance(world: World, rows: list[Row]) -> Iterator[RunEvent]:
    for row in rows:
        table = world.of_name(row["table"])
        if table is None or row["task"] == ANSWERED:
            continue
        ended: datetime = row["at"]
        began = ended - timedelta(seconds=row["seconds"] or 0)
        name, about = table.lake(_replaced(table, began, ended))
        does = job("maintain", table.name, row["task"])
        said = (run_id(ended, "maintain", table.identity, row["task"]), does, [Read(name)],
                [Written(name, about, facets.written(0, row["bytes"], row["added"]))])  # fmt: skip
        kind = facets.job_type(False, SPARK, f"Keeps {table.name} small: {row['task']}.")
        yield event(START, began, *said, world.engine, kind)
        wrong = facets.error(row["error"]) if row["error"] else {}
        yield event(FAIL if wrong else COMPLETE, ended, *said, world.engine | wrong, kind)


def _replaced(table: Mirrored, began: datetime, ended: datetime) -> int | None:
    """Return the snapshot that maintenance made of the same rows then, if it did."""
    for snapshot in lineage(table.table):
        if committed_at(snapshot) < began:
            return None
        operation = snapshot.summary.operation.value if snapshot.summary else ""
        if committed_at(snapshot) <= ended and operation == "replace":
            return snapshot.snapshot_id
    return None


def _replays(world: World, rows: list[Row]) -> Iterator[RunEvent]:
    replayed = [row for row in rows if row["action"] == actions.REPLAYED]
    for (at, topic), letters in groupby(replayed, key=lambda row: (row["at"], row["topic"])):
        table = world.of_topic(topic)
        if table is None:
            continue
        count = len(list(letters))
        does = job("replay", table.name)
        kind = facets.job_type(False, "LAKEHOUSE", f"Puts dead letters of {topic} back into it.")
        run, source = run_id(at, "replay", topic), world.dead_letters(count)[-1]
        for what in (START, COMPLETE):
            yield event(what, at, run, does, [Read(source.name, source.facets, facets.read(count))],
                        [Written(world.topic(topic), {}, facets.written(count))], {}, kind)  # fmt: skip


def _resyncs(world: World, rows: list[Row]) -> Iterator[RunEvent]:
    for (identifier, topic), steps in groupby(
        sorted(rows, key=lambda row: (row["id"], row["topic"], row["at"])), key=lambda row: (row["id"], row["topic"])
    ):
        table = world.of_topic(topic)
        if table is None:
            continue
        does = job("resync", table.name)
        kind = facets.job_type(False, "DEBEZIUM", f"Reads {table.source.name} again.")
        run = run_id(datetime.fromtimestamp(0, UTC), "resync", identifier, topic)
        for step in steps:
            what = COMPLETE if step["step"] == END else START
            yield event(what, step["at"], run, does, [table.read_source], [table.written_topic], {}, kind)
