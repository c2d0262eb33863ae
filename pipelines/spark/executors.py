"""Replace executors before they run out of memory, and report when there are none.

What :mod:`pipelines.spark.leaks` clears in the driver's JVM nobody can clear in an executor's. It grows there with
every file that is read, until the executor ends for want of memory, in the middle of a batch. So none gets that old.

And a cluster may not know of its application any more, when its master has come back without its state or hadn't the
driver's answer in time. It then takes the executors away, and the driver waits for others for ever.
"""

import time

from pyspark.sql import SparkSession
from structlog.stdlib import BoundLogger

HOURS = 6.0
ABSENT_SECONDS = 60.0
LOOK_SECONDS = 5.0
DRIVER = "driver"


class Executors:
    """The executors of a session. With ``local[*]`` there are none but the driver, and nothing is done."""

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


class ExecutorWatch:
    """Watches whether anybody does a session's work. With ``local[*]`` somebody always does."""

    def __init__(self, spark: SparkSession, seconds: float = ABSENT_SECONDS) -> None:
        self._context, self._seconds = spark.sparkContext._jsc.sc(), seconds
        self._local = bool(self._context.isLocal())
        self._alive_at = self._looked_at = time.monotonic()

    def has_none(self) -> bool:
        """Return whether work has waited ``seconds`` and longer, and in all this time there was no executor."""
        now = time.monotonic()
        if self._local or now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        waits = len(self._context.statusTracker().getActiveStageIds()) > 0
        # The driver is one of them.
        if not waits or self._context.statusStore().executorList(True).size() > 1:
            self._alive_at = now
        return now - self._alive_at > self._seconds
