"""What one process knows of itself, in metrics that are declared for it."""

import time
from collections.abc import Callable, Iterator
from threading import Lock

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipelines.metrics.declared import declared

MEMORY, CPU = "lakehouse_service_memory_bytes", "lakehouse_service_cpu_seconds_total"
disable_created_metrics()  # type: ignore[no-untyped-call]


class Meter:
    """The metrics of one service. Used by all its threads.

    A name that isn't declared for the service is a KeyError, other labels than declared are a ValueError: whoever adds
    a metric writes it into metrics.yaml first.
    """

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        self._metrics: dict[str, Counter | Gauge] = {}
        self._series: dict[str, set[tuple[str, ...]]] = {}
        self._lock = Lock()
        for name, each in declared().items():
            if service not in each.served_by or name in (MEMORY, CPU):
                continue
            kind = Counter if each.type == "counter" else Gauge
            self._metrics[name] = kind(name, each.meaning, each.labels, registry=self.registry)
        self.registry.register(_Family(time.monotonic))

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        metric = self._of(name, labels)
        assert isinstance(metric, Counter)
        metric.inc(amount)

    def put(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        metric = self._of(name, labels)
        assert isinstance(metric, Gauge)
        metric.set(value)

    def ask(self, name: str, value: Callable[[], float], **labels: str) -> None:
        """Have a gauge asked for its value whenever somebody looks."""
        metric = self._of(name, labels)
        assert isinstance(metric, Gauge)
        metric.set_function(value)

    def put_all(self, name: str, values: dict[tuple[str, ...], float]) -> None:
        """Set all series of a gauge, by the values of its labels; those that aren't among them are gone."""
        with self._lock:
            gone = self._series.get(name, set()) - values.keys()
            self._series[name] = set(values)
        metric = self._metrics[name]
        for labels in gone:
            metric.remove(*labels)
        for labels, value in values.items():
            child = metric.labels(*labels)
            assert isinstance(child, Gauge)
            child.set(value)

    def _of(self, name: str, labels: dict[str, str]) -> Counter | Gauge:
        metric = self._metrics[name]
        return metric.labels(**labels) if labels else metric


class _Family(Collector):
    """Memory and CPU of this process, and of all that it has started. Looked at no more often than each second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._looked = clock, float("-inf")
        self._lock = Lock()
        self._memory = 0
        # CPU by process (number and start), so that what a child used that has ended still counts.
        self._cpu: dict[tuple[int, float], float] = {}

    def describe(self) -> list[Metric]:
        """Return no descriptions: nothing is looked at before somebody asks."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return both metrics, as of now."""
        with self._lock:
            if self._clock() - self._looked >= 1:
                self._look()
                self._looked = self._clock()
        for name, value in ((MEMORY, float(self._memory)), (CPU, sum(self._cpu.values()))):
            said = declared()[name].meaning
            family = GaugeMetricFamily if name == MEMORY else CounterMetricFamily
            metric = family(name, said)
            metric.add_metric([], value)
            yield metric

    def _look(self) -> None:
        self._memory = 0
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    self._memory += process.memory_info().rss
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
            except psutil.Error:
                continue
