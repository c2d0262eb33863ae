"""Captured: that a topic is made of a table of the source. One run for each schema that the table has had."""

from collections.abc import Iterator
from datetime import datetime

from openlineage.client.event_v2 import RunEvent

from lineage import facets
from lineage.events import COMPLETE, RUNNING, START, event, run_id
from lineage.names import job
from services.lineage.follow.world import Mirrored, State, World, committed_at


class Captured:
    """Tells which columns of a topic are made of which of the source, whenever they change."""

    name = "captured"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the topic to the columns that are told, and to the run that told them."""
        told = dict(state)
        for table in world.mirrored:
            before = told.get(table.topic)
            if isinstance(before, dict) and before["columns"] == table.columns():
                continue
            newest = table.table.current_snapshot()
            if newest is None:
                continue
            began = committed_at(newest)
            run = run_id(began, "capture", table.identity)
            events = list(_events(table, began, run, before["run"] if isinstance(before, dict) else None))
            told = {**told, table.topic: {"columns": table.columns(), "run": run}}
            yield events, told


def _events(table: Mirrored, at: datetime, run: str, before: str | None) -> Iterator[RunEvent]:
    does = job("capture", table.name)
    kind = facets.job_type(True, "DEBEZIUM", f"Writes each change of {table.source.name} to {table.topic}.")
    if before is not None:
        yield event(COMPLETE, at, before, does)
    for what in (START, RUNNING):
        yield event(what, at, run, does, [table.read_source], [table.written_topic], {}, kind)
