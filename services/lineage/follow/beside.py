"""Beside the mirror: what event streams have appended, and what derived tables were computed of.

A run is what a table took in one minute, told once that minute is over: of which offsets, or snapshots, its newest
commit in it is.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import groupby, takewhile

from openlineage.client.event_v2 import RunEvent
from openlineage.client.generated.column_lineage_dataset import Transformation
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lineage import facets
from lineage.events import COMPLETE, START, Read, Written, event, run_id
from lineage.facets import IDENTITY, Facets
from lineage.names import Name, job
from pipelines.lake.properties import (
    COLUMN_ORIGINS,
    DERIVED_FROM,
    EVENTS,
    KIND,
    TOPIC,
)
from pipelines.ledger.entries import POSITIONS, commit_entries
from services.lineage.follow.commits import GRACE, WINDOW, window_of
from services.lineage.follow.world import OF_EVENT, SPARK, State, World, committed_at, masks
from services.stack.lake import lineage

# What a record says of itself, by the technical column that keeps it.
_OF_RECORD = {"_kafka_partition": "partition", "_kafka_offset": "offset", "_ingested_at": "timestamp"}
COMPUTED = Transformation("DIRECT", "TRANSFORMATION", "computed")


class Beside:
    """Tells of the commits of streams and derived tables."""

    name = "beside"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the table's identity to the newest of its snapshots that is told."""
        told = dict(state)
        for table in world.beside:
            identity = str(table.metadata.table_uuid)
            news = _news(table, told.get(identity))
            commits = [snapshot for snapshot in news if _says(snapshot)]
            events: list[RunEvent] = []
            reached = told.get(identity)
            for began, of_window in groupby(commits, key=lambda each: window_of(committed_at(each))):
                if world.now <= began + WINDOW + GRACE:
                    break
                found = list(of_window)
                events += _of_window(world, table, began, found)
                reached = found[-1].snapshot_id
            if events:
                told = {**told, identity: reached}
                yield events, told


def _news(table: Table, known: object) -> list[Snapshot]:
    """Return the snapshots after a known one, oldest first."""
    return list(takewhile(lambda snapshot: snapshot.snapshot_id != known, lineage(table)))[::-1]


def _says(snapshot: Snapshot) -> bool:
    """Return whether a commit says what it is made of."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return DERIVED_FROM in summary or POSITIONS in summary


def _of_window(world: World, table: Table, began: datetime, commits: list[Snapshot]) -> Iterator[RunEvent]:
    summaries = [snapshot.summary.additional_properties for snapshot in commits if snapshot.summary]
    newest, name = commits[-1], ".".join(table.name()[-2:])
    called, about = world.described(table, newest.snapshot_id)
    size, files = (sum(int(each.get(key, 0)) for each in summaries) for key in ("added-files-size", "added-data-files"))
    rows = sum(int(each.get("added-records", 0)) for each in summaries)
    streamed = table.properties[KIND] == EVENTS
    letters: list[Written] = []
    if streamed:
        counts = [entry.counts for entry in commit_entries(summaries) if entry.counts is not None]
        dead = sum(each.dead_lettered for each in counts)
        letters = world.dead_letters(dead) if dead else []
        topic = world.topic(table.properties[TOPIC])
        records = sum(each.records for each in counts)
        inputs = [Read(topic, facets.version(summaries[-1][POSITIONS]), facets.read(records))]
        made = facets.many_column_lineage(_of_records(table, topic))
        says = f"Appends the events of {table.properties[TOPIC]} to {name}."
    else:
        inputs = list(_snapshots(world, json.loads(summaries[-1][DERIVED_FROM])))
        made = facets.many_column_lineage(_of_columns(world, table))
        says = f"Keeps {name} what its query makes of its inputs."
    does = job("stream" if streamed else "derive", name)
    wrote = Written(called, about | made, facets.written(rows, size, files))
    kind = facets.job_type(True, SPARK, says)
    run = run_id(began, does.name, str(table.metadata.table_uuid))
    for what, at in ((START, committed_at(commits[0])), (COMPLETE, committed_at(newest))):
        yield event(what, at, run, does, inputs, [wrote, *letters], world.engine, kind)


def _of_records(table: Table, topic: Name) -> dict[str, list[tuple[Name, str, Transformation]]]:
    """Return what the columns of a stream's table are made of."""
    done = masks(table)
    own = {name: (origin, OF_EVENT) for name, origin in _OF_RECORD.items()}
    columns = table.schema().column_names
    return {name: [(topic, *own.get(name, (name, done.get(name, IDENTITY))))] for name in columns}


def _of_columns(world: World, table: Table) -> dict[str, list[tuple[Name, str, Transformation]]]:
    """Return what the columns of a derived table are made of, as far as that is known."""
    done, names = masks(table), _locations(world)
    told: dict[str, list[tuple[str, str, bool]]] = json.loads(table.properties.get(COLUMN_ORIGINS, "{}"))
    return {
        column: [
            (names[of], origin, done.get(column, IDENTITY if same else COMPUTED))
            for of, origin, same in origins
            if of in names
        ]
        for column, origins in told.items()
    }


def _snapshots(world: World, told: Mapping[str, list[str | int | None]]) -> Iterator[Read]:
    """Yield the tables that a derived one is made of, each as of its snapshot. One that is gone is left out."""
    known = {str(table.metadata.table_uuid): table for table in _all(world)}
    for uuid, snapshot, _ in told.values():
        table = known.get(str(uuid))
        if table is not None:
            name, about = world.located(table)
            version: Facets = {} if snapshot is None else facets.version(str(snapshot))
            yield Read(name, about | version)


def _locations(world: World) -> dict[str, Name]:
    return {".".join(t.name()[-2:]): world.located(t)[0] for t in _all(world)}


def _all(world: World) -> Iterator[Table]:
    yield from (mirrored.table for mirrored in world.mirrored)
    yield from world.beside
