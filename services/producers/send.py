"""Send the events of several streams, each at its rate, and what comes late when its time has come."""

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from confluent_kafka import Producer
from pydantic import BaseModel, ConfigDict

from services.producers.encode import Encode
from services.producers.event import Event, Events

PROGRESS_SECONDS = 1.0
FLUSH_SECONDS = 60.0


@dataclass(frozen=True)
class Stream:
    """One topic, what is sent to it, and how many events happen in a second."""

    topic: str
    events: Events
    encode: Encode
    rate: float


class Summary(BaseModel):
    """What was sent.

    ``sent``: events by stream; ``failed``: that the broker didn't take; ``unsent``: late ones, whose time hadn't come
    by the end; ``behind``: seconds behind the plan in the end.
    """

    model_config = ConfigDict(frozen=True)

    seed: int
    seconds: float
    sent: dict[str, int]
    failed: int
    unsent: int
    behind: float


@dataclass(frozen=True)
class Progress:
    """How far a run is. ``behind``: seconds behind plan."""

    seconds: float
    duration: float | None
    sent: int
    behind: float


OnProgress = Callable[[Progress], None]


@dataclass(order=True)
class _Due:
    """What is to be done at a time of the monotonic clock: an event of a stream to be sent, or (None) the next made."""

    at: float
    number: int
    stream: str = field(compare=False)
    event: Event | None = field(compare=False, default=None)


def run(
    producer: Producer,
    streams: Mapping[str, Stream],
    duration: float | None,
    seed: int,
    on_progress: OnProgress = lambda _progress: None,
    stop: threading.Event | None = None,
) -> Summary:
    """Send for ``duration`` seconds (None: until stopped).

    Each event has its time, whatever became of those before it. ``on_progress`` is called about once a second.
    Raises KafkaException where the producer can't go on.
    """
    stop, started, sent = stop or threading.Event(), time.monotonic(), Counter[str]()
    failed: Counter[str] = Counter()
    ends = None if duration is None else started + duration
    queue = [_Due(started, number, name) for number, name in enumerate(streams)]
    made, number, shown, behind = dict.fromkeys(streams, 0), len(queue), started, 0.0
    heapq.heapify(queue)

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed["all"] += 1

    while queue and (ends is None or queue[0].at < ends):
        due = queue[0]
        wait = due.at - time.monotonic()
        producer.poll(0)
        if stop.wait(min(wait, PROGRESS_SECONDS)) if wait > 0 else stop.is_set():
            break
        now = time.monotonic()
        if now - shown >= PROGRESS_SECONDS:
            shown = now
            on_progress(Progress(now - started, duration, sum(sent.values()), behind))
        if due.at > now:
            continue
        behind, stream = now - due.at, streams[due.stream]
        if due.event is not None:
            heapq.heappop(queue)
            _send(producer, stream, due.event, delivered)
            sent[due.stream] += 1
            continue
        for event in stream.events.at(datetime.now(UTC)):
            if event.delay:
                number += 1
                heapq.heappush(queue, _Due(now + event.delay, number, due.stream, event))
            else:
                _send(producer, stream, event, delivered)
                sent[due.stream] += 1
        made[due.stream] += 1
        heapq.heapreplace(queue, _Due(started + made[due.stream] / stream.rate, due.number, due.stream))
    producer.flush(FLUSH_SECONDS)
    return Summary(
        seed=seed, seconds=round(time.monotonic() - started, 3), sent=dict(sent), failed=failed["all"] + len(producer),
        unsent=sum(due.event is not None for due in queue), behind=round(behind, 3),
    )  # fmt: skip


def _send(producer: Producer, stream: Stream, event: Event, delivered: Callable[[object, object], None]) -> None:
    value = event.value if isinstance(event.value, bytes) else stream.encode(event.value)
    while True:
        try:
            producer.produce(stream.topic, value, event.key, headers=list(event.headers), on_delivery=delivered)
        except BufferError:
            producer.poll(1)
        else:
            return
