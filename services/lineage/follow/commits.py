"""Commits: what the mirror has merged, from the ledger in the tables' own snapshots.

A run is what one table took in one minute: it starts with the first commit of it, goes on with each, and is complete
once the minute is over. Each commit is a version of the table, with the topic's offsets as the input's version. So
there are no more runs than minutes, and still every snapshot is told of.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby

from openlineage.client.event_v2 import RunEvent
from pyiceberg.table.snapshots import Snapshot

from lineage import facets
from lineage.events import COMPLETE, RUNNING, START, Read, Written, event, run_id
from lineage.names import job
from pipelines.ledger.entries import OFFSETS, PIPELINE, POSITIONS, Counts, commit_entries
from services.lineage.follow.world import SPARK, Mirrored, State, World, committed_at
from services.stack.lake import lineage

WINDOW = timedelta(minutes=1)
# A commit is dated before it is done: this much later than a window's end, nothing more is expected in it.
GRACE = timedelta(seconds=20)


@dataclass
class _Sum:
    """What the commits of a window come to, so far."""

    counts: Counts = field(default_factory=Counts)
    bytes: int = 0
    files: int = 0

    def add(self, summary: dict[str, str]) -> None:
        """With one commit more."""
        for commit in commit_entries([summary]):
            self.counts += commit.counts or Counts()
        self.bytes += int(summary.get("added-files-size", 0))
        self.files += int(summary.get("added-data-files", 0))


class Commits:
    """Tells of the mirror's commits."""

    name = "commits"

    def look(self, world: World, state: State) -> Iterator[tuple[list[RunEvent], State]]:
        """See Reader.

        State: the table's identity to the newest snapshot that is told, and its window while that is open.
        """
        told = dict(state)
        for table in world.mirrored:
            events, reached = _of_table(table, told.get(table.identity))
            if reached is not None:
                told = {**told, table.identity: reached}
            if events:
                yield events, told


def window_of(at: datetime) -> datetime:
    """Return when the window began that a moment is in."""
    return datetime.fromtimestamp(at.timestamp() // WINDOW.total_seconds() * WINDOW.total_seconds(), UTC)


def _of_table(table: Mirrored, known: object) -> tuple[list[RunEvent], object]:
    before = known if isinstance(known, dict) else {}
    open_since = datetime.fromisoformat(str(before["open"])) if before.get("open") else None
    needed: list[Snapshot] = []
    for snapshot in lineage(table.table):
        if open_since is None and snapshot.snapshot_id == before.get("snapshot"):
            break
        if open_since is not None and committed_at(snapshot) < open_since:
            break
        needed.insert(0, snapshot)
    commits = [s for s in needed if s.summary and OFFSETS in s.summary.additional_properties]
    told = [s.snapshot_id for s in commits]
    reached = told.index(before["snapshot"]) + 1 if before.get("snapshot") in told else 0
    news = {s.snapshot_id for s in commits[reached:]}
    events: list[RunEvent] = []
    still_open = None
    for began, of_window in groupby(commits, key=lambda s: window_of(committed_at(s))):
        ended = table.world.now > began + WINDOW + GRACE
        events += _of_window(table, began, list(of_window), news, ended)
        # The earliest: what came later is told again with it, which is no harm.
        still_open = still_open or (None if ended else began)
    if not commits:
        return [], None
    after = {"snapshot": commits[-1].snapshot_id, "open": still_open.isoformat() if still_open else None}
    return events, after if after != before else None


def _of_window(
    table: Mirrored, began: datetime, commits: list[Snapshot], news: set[int], ended: bool
) -> Iterator[RunEvent]:
    world, total = table.world, _Sum()
    does, identity = job("mirror", table.name), run_id(began, "mirror", table.identity)
    topic = table.read_topic
    kind = facets.job_type(True, SPARK, f"Merges the changes of {table.topic} into {table.name}.")
    for snapshot in commits:
        assert snapshot.summary is not None
        summary = snapshot.summary.additional_properties
        total.add(summary)
        at, last = committed_at(snapshot), snapshot is commits[-1]
        if snapshot.snapshot_id not in news and not (last and ended):
            continue
        name, about = table.lake(snapshot.snapshot_id)
        read = Read(topic.name, topic.facets | facets.version(summary[POSITIONS]), facets.read(total.counts.records))
        wrote = Written(
            name, about | table.made(snapshot.snapshot_id),
            facets.written(total.counts.merged, total.bytes, total.files),
        )  # fmt: skip
        letters = world.dead_letters(total.counts.dead_lettered) if total.counts.dead_lettered else []
        run = world.engine | facets.parent(parent_run(summary[PIPELINE]), job("mirror", world.settings.source_name))
        said = (identity, does, [read], [wrote, *letters], run, kind)
        if snapshot is commits[0] and snapshot.snapshot_id in news:
            yield event(START, at, *said)
        if snapshot.snapshot_id in news:
            yield event(RUNNING, at, *said)
        if last and ended:
            yield event(COMPLETE, at, *said)


def parent_run(pipeline: str) -> str:
    """Return the run that stands for a pipeline, from its checkpoint's first batch on."""
    return run_id(datetime.fromtimestamp(0, UTC), "pipeline", pipeline)
