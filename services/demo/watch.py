"""What is on screen while the workload runs: rows, lag and throughput by table."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from rich.live import Live

from pipelines.lake.properties import TOPIC
from services.stack.console import Grid, out
from services.stack.endpoints import StackSettings
from services.stack.errors import StackError
from services.stack.lake import open_catalog, tables
from services.stack.offsets import Offsets, behind, kafka

REFRESH_SECONDS = 1.0
PLAIN_EVERY_SECONDS = 10.0
WINDOW_SECONDS = 10.0


@dataclass(frozen=True)
class Reading:
    """One look at a topic: offsets merged and outstanding."""

    at: float
    mirrored: int
    lag: int


class Watch:
    """Reads Kafka and the catalog, and renders a row a table."""

    def __init__(self, settings: StackSettings) -> None:
        self._settings = settings
        self._kafka = kafka(settings)
        self._catalog: Catalog = open_catalog(settings)
        self._history: dict[str, list[Reading]] = {}
        self._rows: dict[str, int] = {}

    def look(self) -> None:
        """Read once. Servers that are being restarted are read the next time."""
        try:
            partitions = self._kafka.partitions()
            ends, mirrored = self._kafka.ends(partitions), self._kafka.mirrored()
            missing = behind(ends, self._kafka.starts(partitions), mirrored)
            self._rows = dict(self._count())
        except StackError:
            return
        now = time.monotonic()
        for topic in sorted({topic for topic, _ in partitions}):
            reading = Reading(now, _sum(mirrored, topic), _sum(missing, topic))
            history = self._history.setdefault(topic, [])
            history.append(reading)
            while now - history[0].at > WINDOW_SECONDS:
                history.pop(0)

    def table(self, title: str) -> Grid:
        """Return the screen."""
        grid = Grid("table", title=title)
        for name in ("rows in the lake", "lag (changes)", "changes/s into the lake"):
            grid.add_column(name, justify="right")
        for topic, history in self._history.items():
            name = topic.split(".", 1)[1]
            grid.add_row(name, f"{self._rows.get(topic, 0):,}", f"{history[-1].lag:,}", f"{_rate(history):,.0f}")
        return grid

    def line(self) -> str:
        """Return one line over all tables, for a log."""
        lag = sum(history[-1].lag for history in self._history.values())
        rate = sum(_rate(history) for history in self._history.values())
        return f"rows in the lake {sum(self._rows.values()):,}, lag {lag:,} changes, {rate:,.0f} changes/s"

    def _count(self) -> Iterable[tuple[str, int]]:
        for table in tables(self._catalog, self._settings):
            snapshot = table.current_snapshot()
            if snapshot is not None and snapshot.summary is not None:
                total = snapshot.summary.additional_properties
                rows = int(total.get("total-records", 0)) - int(total.get("total-position-deletes", 0))
                yield table.properties.get(TOPIC, ""), rows


def follow(watch: Watch, title: str, going: Callable[[], bool]) -> None:
    """Show the screen (on a terminal), or a line now and then, while ``going()``."""
    if out.is_terminal:
        with Live(console=out, auto_refresh=False) as live:
            while going():
                watch.look()
                live.update(watch.table(title), refresh=True)
                time.sleep(REFRESH_SECONDS)
        return
    spoken = 0.0
    while going():
        watch.look()
        if time.monotonic() - spoken >= PLAIN_EVERY_SECONDS:
            out.print(f"  {title}: {watch.line()}")
            spoken = time.monotonic()
        time.sleep(REFRESH_SECONDS)


def _sum(offsets: Offsets, topic: str) -> int:
    return sum(count for (name, _), count in offsets.items() if name == topic)


def _rate(history: list[Reading]) -> float:
    first, last = history[0], history[-1]
    return 0.0 if last.at <= first.at else (last.mirrored - first.mirrored) / (last.at - first.at)
