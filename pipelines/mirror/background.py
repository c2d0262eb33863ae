"""Mirror tables that take long by themselves in the background, beside the batches of the others.

They take long because they are audited before anybody sees them. The others don't wait for them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.kafka.ranges import Positions
from pipelines.spark.sessions import Sessions

PARALLEL_TABLES = 2


@dataclass(frozen=True)
class _Job:
    future: Future[TopicOutcome]
    positions: Positions


class BackgroundTables:
    """The tables that are mirrored in the background. Used by the thread that runs batches."""

    def __init__(self, spark: SparkSession) -> None:
        self._sessions = Sessions(spark, PARALLEL_TABLES)
        self._pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="background")
        self._jobs: dict[str, _Job] = {}

    def start(self, topic: str, positions: Positions, job: Callable[[SparkSession], TopicOutcome]) -> None:
        """Start to mirror a table, of which readers see everything below ``positions`` meanwhile."""
        self._jobs[topic] = _Job(self._pool.submit(self._run, job), positions)

    def _run(self, job: Callable[[SparkSession], TopicOutcome]) -> TopicOutcome:
        with self._sessions.lend() as session:
            return job(session)

    def busy(self) -> dict[str, Positions]:
        """Return the tables that are under way, and what readers see of them."""
        return {topic: job.positions for topic, job in self._jobs.items()}

    def finished(self) -> dict[str, Future[TopicOutcome]]:
        """Return the tables that have ended since the last call."""
        done = {topic: job.future for topic, job in self._jobs.items() if job.future.done()}
        for topic in done:
            del self._jobs[topic]
        return done
