"""Waiting until the lake holds everything that the source had committed when asked.

From source to lake there are two hand-overs, each with a position of its own. The replication slot's confirmed position
passes a commit only after Kafka has acknowledged its events; the mirror's committed offsets pass an event only after
its table's commit. So: note the log's position, write a heartbeat after it (the slot can't pass a position that nothing
follows), wait for the slot, note how far the topics reach, wait for the mirror, which is told that somebody waits
(:mod:`pipelines.mirror.awaited_offsets`).
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_exponential

from pipelines.progress.holds import RETRIED
from pipelines.sources.base.database import LogPosition, SourceSession
from pipelines.sources.base.errors import NotPrepared
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify, NotCaughtUp
from services.stack.offsets import Offsets, behind, kafka
from services.stack.progress import OnProgress, Progress, silent
from services.stack.source import choose, connect, topics_of

# Topic, and why its table is held.
OnHeld = Callable[[str, str], None]
HEARTBEAT_EVERY_SECONDS = 5.0
ASK_EVERY_SECONDS = 5.0


def unheard(_topic: str, _why: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Position:
    """Where the log stood, and how far the topics reached once all up to there was in Kafka.

    ``held``: topics of which not all that is in the lake, because the mirror holds their tables, and why.
    """

    log: LogPosition
    ends: Offsets
    starts: Offsets
    held: Mapping[str, str] = field(default_factory=dict)


class Deadline:
    """A moment that a row of waits must all keep."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started = time.monotonic()

    @property
    def waited(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.seconds - self.waited)


def wait_until_visible(
    settings: StackSettings, timeout: float, on_progress: OnProgress = silent, but_held: bool = False,
    tables: Iterable[str] = (), on_held: OnHeld = unheard,
) -> Position:  # fmt: skip
    """Return once everything committed in the source before the call is visible in the lake.

    ``tables``: only that of these, ``table`` or ``schema.table``; none: of all. ``but_held``: all but that of tables
    which the mirror holds. ``on_held`` is told of each table that can't come, as soon as that is known.

    Raises NotCaughtUp once only held tables lack something, and after ``timeout`` seconds; CannotVerify where no table
    has such a name, Unreachable when a server doesn't answer.
    """
    deadline, topics = Deadline(timeout), _topics(settings, set(tables))
    position = wait_until_published(settings, deadline, on_progress)
    if topics:
        ends = {key: end for key, end in position.ends.items() if key[0] in topics}
        position = replace(position, ends=ends)
    waiting = _Waiting(settings, position, on_progress, on_held)
    return replace(position, held=waiting.wait(deadline, but_held))


def wait_for_streams(
    settings: StackSettings, topics: Collection[str], timeout: float, on_progress: OnProgress = silent
) -> Offsets:
    """Return once everything that these topics of event streams held at the call is visible in the lake: their ends.

    Raises NotCaughtUp after ``timeout`` seconds, or once only streams that are held lack something.
    """
    deadline, offsets = Deadline(timeout), kafka(settings)
    partitions = offsets.partitions_of(topics)
    ends, starts = offsets.ends(partitions), offsets.starts(partitions)

    def look() -> tuple[dict[str, int], dict[str, str]]:
        reached, held = offsets.streams_told(topics)
        lags: dict[str, int] = {}
        for (topic, _), lag in behind(ends, starts, reached).items():
            lags[topic] = lags.get(topic, 0) + lag
        on_progress(Progress("lake", "offsets not yet in the lake", sum(lags.values())))
        return lags, {topic: why for topic, why in held.items() if topic in lags}

    def can_come() -> bool:
        lags, held = look()
        return bool(lags.keys() - {topic for topic, why in held.items() if not why.startswith(RETRIED)})

    with suppress(RetryError):
        _until(deadline, can_come)
    lags, held = look()
    if lags:
        lines = [f"{t} lacks {lag:,} offsets in the lake" for t, lag in sorted(lags.items()) if t not in held]
        raise NotCaughtUp(deadline.waited, [*lines, "see `make logs s=streams`"] if lines else [], held)
    return ends


def _topics(settings: StackSettings, wanted: set[str]) -> set[str]:
    """Return the topics of the tables that are wanted, and that which tells of their schemas; (): all."""
    if not wanted:
        return set()
    with connect(settings) as source:
        chosen = choose(source.tables(), wanted, source.why_left_out())
    topics = topics_of(settings)
    return {topics.topic(table.schema, table.name) for table in chosen} | {topics.schema_topic}


def wait_until_published(settings: StackSettings, deadline: Deadline, on_progress: OnProgress = silent) -> Position:
    """Return once Kafka holds everything committed in the source before the call, and how far the topics reach then."""
    with connect(settings) as source:
        position = source.log_position()
        beat = 0.0

        def lag() -> int | None:
            nonlocal beat
            if time.monotonic() - beat > HEARTBEAT_EVERY_SECONDS:
                _beat(source)
                beat = time.monotonic()
            bytes_left = source.unread_bytes(position)
            on_progress(Progress("source", "bytes of the log not yet in Kafka", bytes_left or 0))
            return bytes_left

        try:
            _until(deadline, lambda: lag() != 0)
        except RetryError:
            raise NotCaughtUp(deadline.waited, [_unread_text(source, source.unread_bytes(position))]) from None
    topics = kafka(settings)
    partitions = topics.partitions(schema_log=True)
    return Position(position, topics.ends(partitions), topics.starts(partitions))


class _Waiting:
    """Waits for the mirror to reach a position."""

    def __init__(self, settings: StackSettings, position: Position, on_progress: OnProgress, on_held: OnHeld) -> None:
        self._topics, self._position = kafka(settings), position
        self._on_progress, self._on_held = on_progress, on_held
        self._asked = 0.0
        self._told: set[str] = set()

    def wait(self, deadline: Deadline, but_held: bool) -> dict[str, str]:
        """Return the topics that are held, and why, once the others are there."""
        try:
            _until(deadline, lambda: self._pending(but_held))
        except RetryError:
            lags, held = self._look()
            lines = [f"{t} lacks {lag:,} offsets in the lake" for t, lag in sorted(lags.items()) if t not in held]
            left = {topic: why for topic, why in held.items() if topic in lags}
            raise NotCaughtUp(deadline.waited, [*lines, "see `make logs s=mirror`"], left) from None
        lags, held = self._look()
        left = {topic: why for topic, why in held.items() if topic in lags}
        if left and not but_held:
            raise NotCaughtUp(deadline.waited, [], left)
        return left

    def _pending(self, but_held: bool) -> bool:
        """Return whether anything lacks that can come. What may pass by itself can, for who doesn't do without it."""
        lags, held = self._look()
        stuck = {topic: why for topic, why in held.items() if topic in lags and not why.startswith(RETRIED)}
        for topic in sorted(stuck.keys() - self._told):
            self._on_held(topic, stuck[topic])
        self._told |= stuck.keys()
        return bool(lags.keys() - (held if but_held else stuck).keys())

    def _look(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return how much each topic lacks in the lake, if it lacks anything, and which are held."""
        lags: dict[str, int] = {}
        reached, held = self._topics.told()
        lacking = behind(self._position.ends, self._position.starts, reached)
        if lacking and time.monotonic() - self._asked > ASK_EVERY_SECONDS:
            self._topics.want({key: self._position.ends[key] for key in lacking})
            self._asked = time.monotonic()
        for (topic, _), lag in lacking.items():
            lags[topic] = lags.get(topic, 0) + lag
        self._on_progress(Progress("lake", "offsets not yet in the lake", sum(lags.values())))
        return lags, held


def _until(deadline: Deadline, pending: Callable[[], bool]) -> None:
    """Ask until ``pending`` is false. Raises tenacity.RetryError when the time is up."""
    stop, wait = stop_after_delay(deadline.left), wait_exponential(0.1, max=0.5)
    Retrying(stop=stop, wait=wait, retry=retry_if_result(bool))(pending)


def _beat(session: SourceSession) -> None:
    try:
        session.beat()
    except NotPrepared as error:
        raise CannotVerify(str(error)) from None


def _unread_text(session: SourceSession, lag: int | None) -> str:
    if lag is None:
        return f"the source has no {session.log_reader}: capture isn't running; see `make logs s=capture`"
    return f"capture lacks {lag:,} bytes of the source's log; see `make status` and `make logs s=connect`"
