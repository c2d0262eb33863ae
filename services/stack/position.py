"""Waiting until the lake holds everything that the source had committed when asked.

From source to lake there are two hand-overs, each with a position of its own. The replication slot's confirmed position
passes a commit only after Kafka has acknowledged its events; the mirror's committed offsets pass an event only after
its table's commit. So: note the log's position, write a heartbeat after it (the slot can't pass a position that nothing
follows), wait for the slot, note how far the topics reach, wait for the mirror, which is told that somebody waits
(:mod:`pipelines.mirror.awaited_offsets`).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_exponential

from pipelines.sources.base.database import LogPosition, SourceSession
from pipelines.sources.base.errors import NotPrepared
from services.stack.endpoints import StackSettings
from services.stack.errors import CannotVerify, NotCaughtUp
from services.stack.offsets import Offsets, behind, kafka
from services.stack.progress import OnProgress, Progress, silent
from services.stack.source import connect

HEARTBEAT_EVERY_SECONDS = 5.0
ASK_EVERY_SECONDS = 5.0


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
    settings: StackSettings, timeout: float, on_progress: OnProgress = silent, but_held: bool = False
) -> Position:
    """Return once everything committed in the source before the call is visible in the lake.

    With ``but_held``, all but that of tables which the mirror holds.

    Raises NotCaughtUp after ``timeout`` seconds, Unreachable when a server doesn't answer.
    """
    deadline = Deadline(timeout)
    position = wait_until_published(settings, deadline, on_progress)
    return replace(position, held=_wait_until_mirrored(settings, position, deadline, on_progress, but_held))


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


def _wait_until_mirrored(
    settings: StackSettings, position: Position, deadline: Deadline, on_progress: OnProgress, but_held: bool
) -> dict[str, str]:
    topics = kafka(settings)
    asked = 0.0

    def missing() -> dict[str, int]:
        nonlocal asked
        lags: dict[str, int] = {}
        lacking = behind(position.ends, position.starts, topics.mirrored())
        if lacking and time.monotonic() - asked > ASK_EVERY_SECONDS:
            topics.want({key: position.ends[key] for key in lacking})
            asked = time.monotonic()
        for (topic, _), lag in lacking.items():
            lags[topic] = lags.get(topic, 0) + lag
        on_progress(Progress("lake", "offsets not yet in the lake", sum(lags.values())))
        return lags

    def pending() -> bool:
        lags = missing()
        return bool(lags.keys() - topics.held().keys() if but_held else lags)

    try:
        _until(deadline, pending)
        lags = missing()
        return {topic: why for topic, why in topics.held().items() if topic in lags}
    except RetryError:
        lags, held = missing(), topics.held()
    lines = [
        f"{topic} lacks {lag:,} offsets in the lake" + (f", and is held: {held[topic]}" if topic in held else "")
        for topic, lag in sorted(lags.items())
    ]
    raise NotCaughtUp(deadline.waited, [*lines, "see `make logs s=mirror`"])


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
