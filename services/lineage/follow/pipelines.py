"""Pipelines: the mirror itself, which the runs of its tables are part of, and tables that it can't bring on."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from openlineage.client.event_v2 import RunEvent

from lineage import facets
from lineage.events import FAIL, RUNNING, START, Written, event, run_id
from lineage.names import job
from pipelines.ledger.entries import PIPELINE
from services.lineage.follow.commits import parent_run
from services.lineage.follow.world import SPARK, State, World
from services.stack.offsets import kafka


class Pipelines:
    """Tells when a pipeline is seen first. Another one begins with another checkpoint."""

    name = "pipelines"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the pipelines that are told."""
        known = list(state.get("known") or [])  # type: ignore[call-overload]
        found = {}
        for table in world.mirrored:
            newest = table.table.current_snapshot()
            summary = newest.summary.additional_properties if newest and newest.summary else {}
            if PIPELINE in summary:
                found[summary[PIPELINE]] = True
        does = job("mirror", world.settings.source_name)
        kind = facets.job_type(True, SPARK, f"Mirrors the tables of {world.settings.source_name} into the lake.")
        events = [
            event(what, world.now, parent_run(pipeline), does, (), (), world.engine, kind)
            for pipeline in found if pipeline not in known for what in (START, RUNNING)
        ]  # fmt: skip
        if events:
            yield events, {"known": [*known, *(p for p in found if p not in known)]}


class Held:
    """Tells of tables that wait, each once for as long as it is for the same reason."""

    name = "held"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader. State: the topic to the reason that is told, and since when it has been."""
        before: dict[str, Any] = dict(state)
        now = {topic: reason for topic, reason in kafka(world.settings).held().items() if reason}
        kept = {topic: told for topic, told in before.items() if now.get(topic) == told["reason"]}
        events: list[RunEvent] = []
        for topic, reason in now.items():
            table = world.of_topic(topic)
            if topic in kept or table is None:
                continue
            kept[topic] = {"reason": reason, "since": world.now.isoformat()}
            began = datetime.fromisoformat(kept[topic]["since"])
            name, about = table.lake()
            said = (run_id(began, "held", table.identity), job("mirror", table.name), [table.read_topic],
                    [Written(name, about | table.made())])  # fmt: skip
            events += [event(START, began, *said, world.engine),
                       event(FAIL, began, *said, world.engine | facets.error(reason))]  # fmt: skip
        if kept != before:
            yield events, dict(kept)
