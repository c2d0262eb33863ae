"""Looks that end, fail, or hang: what the house and the metrics say of each."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from services.console.house import House, Looked
from services.console.look.looker import Looker
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop


@dataclass
class Clock:
    """A clock that goes on when it is told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Server:
    """A part whose server takes ``seconds`` by the clock; ``error``: what it then says."""

    clock: Clock
    seconds: float = 1.0
    error: str | None = None
    meanwhile: Callable[[], None] = field(default=lambda: None)
    name: str = "catalog"
    every: float = 15.0

    def look(self, house: House, meter: Meter) -> None:
        del house, meter
        self.clock.now += self.seconds
        self.meanwhile()
        if self.error:
            raise LakehouseError(self.error)


@dataclass
class Watched:
    """A looker at one part, by a clock of its own."""

    server: Server
    house: House
    meter: Meter
    looker: Looker

    def failed(self) -> float | None:
        """What the metric says of the part."""
        return self.meter.registry.get_sample_value("lakehouse_look_failed", {"part": "catalog"})


@pytest.fixture
def watched() -> Iterator[Watched]:
    clock, house, meter, stop = Clock(), House(), Meter("console"), Stop()
    server = Server(clock)
    yield Watched(server, house, meter, Looker([server], house, meter, stop, json_log(), clock))
    stop.event.set()


@pytest.mark.parametrize(
    ("usual", "takes", "hangs"),
    [
        pytest.param(1.0, 29, False, id="slow"),
        pytest.param(1.0, 31, True, id="half a minute"),
        pytest.param(40.0, 119, False, id="a thousand tables take as long as they take"),
        pytest.param(40.0, 121, True, id="three times as long as it took"),
        pytest.param(None, 179, False, id="the first look reads everything"),
        pytest.param(None, 181, True, id="a first look that never ends"),
    ],
)
def test_a_look_that_hangs_is_told_while_it_does(
    watched: Watched, usual: float | None, takes: float, hangs: bool
) -> None:
    if usual is not None:
        watched.server.seconds = usual
        watched.looker.look(watched.server)
    seen: list[tuple[Looked | None, float | None]] = []

    def meanwhile() -> None:
        watched.looker.note_hanging()
        seen.append((watched.house.unseen.get("catalog"), watched.failed()))

    watched.server.seconds, watched.server.meanwhile = takes, meanwhile
    watched.looker.look(watched.server)
    ((looked, failed),) = seen
    assert (looked is not None, bool(failed)) == (hangs, hangs)
    if looked is not None:
        assert (looked.error or "").startswith("no answer since ")
        assert looked.since is not None
        assert datetime.now(UTC) - looked.since >= timedelta(seconds=takes)
    # The answer came at last: all is as before.
    assert (watched.house.unseen, watched.failed()) == ({}, 0.0)


def test_what_fails_after_it_hung_is_the_same_trouble(watched: Watched) -> None:
    watched.looker.look(watched.server)
    begun: list[datetime | None] = []

    def meanwhile() -> None:
        watched.looker.note_hanging()
        begun.append(watched.house.looked["catalog"].since)

    watched.server.seconds, watched.server.meanwhile, watched.server.error = 60.0, meanwhile, "it was killed"
    watched.looker.look(watched.server)
    looked = watched.house.looked["catalog"]
    assert (looked.error, looked.since, watched.failed()) == ("it was killed", begun[0], 1.0)
    watched.server.seconds, watched.server.error = 1.0, None
    watched.server.meanwhile = lambda: None
    watched.looker.look(watched.server)
    assert (watched.house.unseen, watched.failed()) == ({}, 0.0)


def test_a_part_that_never_answers_is_told_by_the_running_looker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.console.look.looker.FIRST_SECONDS", 0.01)
    monkeypatch.setattr("services.console.look.looker.WATCH_SECONDS", 0.01)
    forever, told = threading.Event(), threading.Event()

    class Silent(Server):
        def look(self, house: House, meter: Meter) -> None:
            forever.wait(60)

    class Told(House):
        def note(self, part: str, seconds: float, error: str | None, since: datetime | None = None) -> None:
            super().note(part, seconds, error, since)
            if error:
                told.set()

    house, stop = Told(), Stop()
    Looker([Silent(Clock())], house, Meter("console"), stop, json_log()).start()
    assert told.wait(60)
    assert "catalog" in house.unseen
    stop.event.set()
    forever.set()
