"""The heap of the driver's JVM."""

from math import nan
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pipelines.metrics.meter import Meter


class Heap:
    """What the JVM's heap has, in bytes; nan once the JVM is gone."""

    def __init__(self, jvm: Any) -> None:
        self._runtime = jvm.java.lang.Runtime.getRuntime()

    def used(self) -> float:
        """Return how much is in use, garbage included."""
        try:
            return float(self._runtime.totalMemory() - self._runtime.freeMemory())
        except (Py4JError, OSError):
            return nan

    def most(self) -> float:
        """Return how much it may have."""
        try:
            return float(self._runtime.maxMemory())
        except (Py4JError, OSError):
            return nan


def tell_heap(meter: Meter, spark: SparkSession) -> None:
    """Have the heap told in metrics, as it is whenever somebody looks."""
    heap = Heap(spark._jvm)
    meter.ask("lakehouse_jvm_heap_bytes", heap.used, area="used")
    meter.ask("lakehouse_jvm_heap_bytes", heap.most, area="max")
