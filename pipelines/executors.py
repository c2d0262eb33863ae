"""Executors of their own are replaced in good time.

What :mod:`pipelines.leaks` lets go in the driver's JVM nobody can in an executor's. It grows there with every file that
is read, until the executor ends for want of memory, in the middle of a batch. So none gets that old.
"""

import time

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

HOURS = 6.0
DRIVER = "driver"


class Executors:
    """Those of a session. With ``local[*]`` there are none but the driver, and nothing is done."""

    def __init__(self, spark: SparkSession, log: BoundLogger, hours: float = HOURS) -> None:
        self._context, self._log, self._seconds = spark.sparkContext._jsc.sc(), log, hours * 3600

    @property
    def ages(self) -> dict[str, float]:
        """Executor to the seconds since it came."""
        found, listed = {}, self._context.statusStore().executorList(True).iterator()
        while listed.hasNext():
            one = listed.next()
            if (name := one.id()) != DRIVER:
                found[name] = time.time() - one.addTime().getTime() / 1000
        return found

    def renew(self) -> None:
        """Replace the oldest one, if it is too old. What runs on it fails, and so does what only it has kept."""
        ages = self.ages
        oldest = max(ages, key=ages.__getitem__, default=None)
        if oldest is not None and ages[oldest] > self._seconds and self._context.killAndReplaceExecutor(oldest):
            self._log.info("executor_replaced", executor=oldest, hours=round(ages[oldest] / 3600, 1))
