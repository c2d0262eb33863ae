"""A resync: have the source's rows read again, say from where to where in the topics, and wait for the mirror.

Named tables are read beside the stream, by incremental snapshots. One without a key is read at one position, while its
writers wait. The whole source is read by a connector that begins anew: with a new replication slot, and a snapshot of
all tables at its position. Why all three are right under concurrent changes is told in infra/decisions/018-resync.md.
"""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyiceberg.catalog import Catalog
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from pipelines.dead_letters.actions import DISCARDED
from pipelines.ledger.renewed_topics import renewal
from pipelines.ledger.resyncs import ANEW, END, START
from pipelines.sources.base.database import SourceSession
from pipelines.sources.base.tables import SourceTable
from services.capture.connect import Connect
from services.operations.dead_letters.letters import LetterFilter, Letters
from services.operations.resync import requests
from services.operations.resync.errors import CannotResync, NotResynced
from services.operations.resync.notifications import INCREMENTAL, INITIAL, Notifications
from services.operations.resync.scan import Scan
from services.stack import lake
from services.stack.endpoints import StackSettings
from services.stack.offsets import kafka
from services.stack.position import Deadline, wait_until_published
from services.stack.progress import OnProgress, Progress, silent
from services.stack.records import Decoder
from services.stack.source import choose, connect, topics_of

Offsets = Mapping[str, Mapping[int, int]]


@dataclass
class TableResync:
    """What was done of one table.

    ``read``: its rows in the source; ``removed``: rows that only the lake had; ``letters``: dead letters that were
    closed, since their rows were read again.
    """

    table: str
    read: int = 0
    removed: int | None = None
    letters: int = 0


@dataclass
class ResyncReport:
    """What was done. ``whole``: the connector began anew."""

    whole: bool
    tables: list[TableResync] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


def plan(settings: StackSettings, names: Iterable[str]) -> list[SourceTable]:
    """Return the tables that would be read again; all, if none is named. Raises CannotVerify for an unknown name."""
    with connect(settings) as source:
        found, unread = source.tables(), source.why_left_out()
    return choose(found, set(names), unread)


def resync(
    settings: StackSettings, names: Iterable[str], whole: bool, timeout: float, on_progress: OnProgress = silent
) -> ResyncReport:
    """Make the tables ``names`` equal to their source again, or with ``whole`` all tables, by a new slot.

    Raises CannotResync, NotResynced after ``timeout`` seconds, and what looking at the stack raises.
    """
    started = time.monotonic()
    work = _Work(settings, plan(settings, names), Deadline(timeout), on_progress)
    with Connect(settings.connect_url) as connector:
        done = work.read_whole(connector) if whole else work.read_tables(connector)
    done.seconds = time.monotonic() - started
    return done


class _Work:
    def __init__(
        self, settings: StackSettings, tables: list[SourceTable], deadline: Deadline, on_progress: OnProgress
    ) -> None:
        self._settings, self._tables, self._deadline, self._on_progress = settings, tables, deadline, on_progress
        self._topics = {topics_of(settings).topic(t.schema, t.name): t.full_name for t in tables}
        self._ids = {topic: str(uuid.uuid4()) for topic in self._topics}
        self._done = {name: TableResync(name) for name in self._topics.values()}
        self._catalog: Catalog = lake.open_catalog(settings)
        pinned = [found for table in lake.tables(self._catalog, settings) if (found := lake.pin(table))]
        self._keys = {(table.schema, table.source_table): table.key for table in pinned}
        self._ledgers = {table.topic: table.state for table in pinned}
        self._kafka = kafka(settings)

    def read_tables(self, connector: Connect) -> ResyncReport:
        """Read the tables beside the stream; those without a key one after another, each while its writers wait."""
        state = connector.state(self._settings.source_name)
        if state is None or not state.running:
            raise CannotResync(
                "capture doesn't run, so nothing can be read beside the stream. `make status` says why, and whether"
                " the whole source has to be read again (`lakehouse resync --all`)."
            )
        keyless = [table for table in self._tables if not self._is_keyed(table)]
        keyed = [table for table in self._tables if table not in keyless]
        with connect(self._settings) as source:
            asked = source.rereads_requested()
            if keyed:
                self._read_beside(source, connector, keyed)
            for table in keyless:
                self._read_locked(source, connector, table)
            if source.rereads_requested() != asked + len(self._tables):
                raise CannotResync(
                    "another snapshot was asked for meanwhile, so that it isn't certain which of them was read. Run"
                    " the same again."
                )
        return self._finish(whole=False)

    def _read_beside(self, source: SourceSession, connector: Connect, tables: Sequence[SourceTable]) -> None:
        topics = self._topics_of(tables)
        self._wait_for_other_snapshots(connector)
        news = Notifications(self._settings)
        self._begin(topics)
        with source.transaction():
            for table in tables:
                source.request_reread(table)
        self._scan(INCREMENTAL, news, topics)
        self._end(topics)

    def _read_locked(self, source: SourceSession, connector: Connect, table: SourceTable) -> None:
        """Read a table of whose rows none can be told from another: nothing of it may change meanwhile."""
        topics = self._topics_of([table])
        self._on_progress(Progress(table.full_name, "waiting for a moment without writers"))
        with connect(self._settings) as holder, holder.locked(table, self._deadline.left):
            self._wait_for_other_snapshots(connector)
            news = Notifications(self._settings)
            self._begin(topics)
            source.request_reread(table, at_once=True)
            self._scan(INITIAL, news, topics)
        self._end(topics)

    def _is_keyed(self, table: SourceTable) -> bool:
        """Return whether rows are told by a key: the table's, or the one by which the lake has it."""
        return bool(table.key or self._keys.get((table.schema, table.name)))

    def _topics_of(self, tables: Iterable[SourceTable]) -> list[str]:
        names = {table.full_name for table in tables}
        return [topic for topic, name in self._topics.items() if name in names]

    def read_whole(self, connector: Connect) -> ResyncReport:
        """Have the connector begin anew. Capture does so, once there is no stored position any more."""
        name = self._settings.source_name
        connector.stop(name)
        self._wait("stopping the connector", lambda: (found := connector.state(name)) is not None and found.stopped)
        news = Notifications(self._settings)
        self._begin(self._topics)
        connector.forget_offset(name)
        self._scan(INITIAL, news, self._topics)
        self._end(self._topics)
        return self._finish(whole=True)

    def _wait_for_other_snapshots(self, connector: Connect) -> None:
        """Wait until no scan is under way: it would be taken for ours, though it began before."""
        wait_until_published(self._settings, Deadline(self._deadline.left), self._on_progress)
        self._wait("waiting for other snapshots", lambda: not connector.reads_tables(self._settings.source_name))

    def _begin(self, topics: Collection[str]) -> None:
        """Say from where on everything is read again; what was wrong with records before is of no concern any more."""
        starts = self._ends()
        renewed = self._renewed(topics, starts)
        letters = Letters(self._catalog)
        decoder = Decoder(self._settings.schema_registry_url)
        for topic in topics:
            mine = letters.find(LetterFilter(topic=topic), decoder)
            closed = [
                letter
                for letter in mine
                if topic in renewed or letter["offset"] < starts[topic].get(letter["partition"], 0)
            ]
            if closed:
                letters.close(closed, DISCARDED, f"resync {self._ids[topic]}")
            self._done[self._topics[topic]].letters = len(closed)
        self._write(ANEW, renewed, starts)
        self._write(START, set(topics) - renewed, starts)

    def _renewed(self, topics: Iterable[str], ends: Offsets) -> set[str]:
        """Return the topics that aren't those any more from which their tables were filled."""
        mine = {topic: self._ledgers[topic] for topic in topics if topic in self._ledgers}
        return {t for t, it in self._kafka.topic_ids(mine).items() if renewal(mine[t], it, ends[t])}

    def _end(self, topics: Collection[str]) -> None:
        """Say up to where everything was read again."""
        self._write(END, topics, self._ends())

    def _write(self, step: str, topics: Collection[str], offsets: Offsets) -> None:
        if topics:
            requests.write(self._catalog, step, {topic: (self._ids[topic], offsets[topic]) for topic in topics})

    def _finish(self, whole: bool) -> ResyncReport:
        """Wait until the mirror has come to the ends."""
        self._wait("waiting for the mirror", self._mirrored)
        return ResyncReport(whole, [self._done[name] for name in sorted(self._done)])

    def _ends(self) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {topic: {} for topic in self._topics}
        mine = [key for key in self._kafka.partitions() if key[0] in found]
        for (topic, partition), end in self._kafka.ends(mine).items():
            found[topic][partition] = end
        return found

    def _scan(self, kind: str, news: Notifications, topics: Iterable[str]) -> None:
        """Wait until every table of the topics was read whole."""
        scan = Scan(kind, [self._topics[topic] for topic in topics])

        def take() -> bool:
            for said in news.news():
                scan.take(said)
                if said.chunks and said.table in self._done:
                    self._on_progress(Progress(said.table, "chunks read", said.chunk, said.chunks))
            return scan.whole

        self._wait("reading the source", take)
        for table, rows in scan.rows.items():
            self._done[table].read = rows

    def _mirrored(self) -> bool:
        """Return whether every table has ended its resync. One without any record has no table in the lake."""
        empty = {topic for topic, reached in self._ends().items() if not any(reached.values())}
        for table in lake.tables(self._catalog, self._settings):
            pinned = lake.pin(table)
            mine = None if pinned is None else self._ids.get(pinned.topic)
            if pinned is not None and mine is not None and pinned.state.resync == mine:
                self._done[self._topics[pinned.topic]].removed = pinned.state.resynced
        left = [topic for topic, name in self._topics.items() if self._done[name].removed is None]
        self._on_progress(Progress("lake", "tables resynced", len(self._topics) - len(left), len(self._topics)))
        return set(left) <= empty

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        def look() -> bool:
            self._on_progress(Progress("resync", what))
            return done()

        waiting = Retrying(
            retry=retry_if_result(lambda held: not held), stop=stop_after_delay(self._deadline.left), wait=wait_fixed(1)
        )
        try:
            waiting(look)
        except RetryError:
            held = [f"{topic} is held: {why}" for topic, why in self._kafka.held().items() if topic in self._topics]
            raise NotResynced(
                " ".join([f"not done after {self._deadline.waited:.0f} s, while {what}.", *held])
                + " See `make status` and `make logs`, mend what is wrong, and run the same again."
            ) from None
