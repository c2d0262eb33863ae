"""How far the lake is behind Kafka, and which tables are held."""

import time
from collections import deque

from pipelines.metrics.meter import Meter
from pipelines.specs.load import Specs
from services.console.house import SAMPLES, House, Progress
from services.console.rows import freshness
from services.console.settings import ConsoleSettings
from services.facts.pending import Pending, by_topic
from services.stack.offsets import Offsets, behind, kafka


class ProgressPart:
    """See Part."""

    name, every = "kafka", 5.0

    def __init__(self, settings: ConsoleSettings, specs: Specs) -> None:
        self._settings, self._streams = settings, [spec.topic for spec in specs.streams.values()]
        self._pending = Pending(settings.kafka_bootstrap)
        self._last: tuple[float, int, int] | None = None

    def look(self, house: House, meter: Meter) -> None:
        """See Part."""
        topics = kafka(self._settings)
        partitions = [*topics.partitions(), *topics.partitions_of(self._streams)]
        reached, held = topics.told()
        if self._streams:
            more, others = topics.streams_told(self._streams)
            reached, held = reached | more, held | others
        ends, starts = topics.ends(partitions), topics.starts(partitions)
        lags = behind(ends, starts, reached)
        into, shown = self._rates(ends, reached)
        house.progress = Progress(
            by_topic(lags, (topic for topic, _ in partitions)), self._pending.oldest(lags, reached, starts), held, into,
            shown,
        )  # fmt: skip
        self._tell(house, meter)

    def _rates(self, ends: Offsets, reached: Offsets) -> tuple[float, float]:
        now = time.monotonic(), sum(ends.values()), sum(reached.get(key, 0) for key in ends)
        last, self._last = self._last, now
        if last is None or now[0] <= last[0]:
            return 0.0, 0.0
        passed = now[0] - last[0]
        return max(0, now[1] - last[1]) / passed, max(0, now[2] - last[2]) / passed

    def _tell(self, house: House, meter: Meter) -> None:
        lags: dict[tuple[str, ...], float] = {}
        ages: dict[tuple[str, ...], float] = {}
        for name, view in house.tables.items():
            fresh = freshness(house, name, view)
            if view.facts.topic is not None:
                lags[name,] = house.progress.lags.get(view.facts.topic, 0)
            if fresh is not None:
                ages[name,] = fresh
                house.fresh.setdefault(name, deque(maxlen=SAMPLES)).append(round(fresh, 2))
        for gone in house.fresh.keys() - house.tables.keys():
            house.fresh.pop(gone, None)
        meter.put_all("lakehouse_table_behind_offsets", lags)
        meter.put_all("lakehouse_table_freshness_seconds", ages)
