"""Mirror tables that take long by themselves in the background, beside the batches of the others.

They take long because they are audited before anybody sees them. The others don't wait for them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from pyspark.sql import SparkSession

from pipelines.changes.topic_batch import TopicOutcome
from pipelines.kafka.ranges import Positions

PARALLEL_TABLES = 2


@dataclass(frozen=True)
class _Job:
    future: Future[TopicOutcome]
    positions: Positions


class BackgroundTables:
    """The tables that are mirrored in the background. Used by the thread that runs batches."""

    def __init__(self, spark: SparkSession) -> None:
        # A session's settings carry one commit's ledger, so a session serves one table at a time.
        self._sessions: SimpleQueue[SparkSession] = SimpleQueue()
        for _ in range(PARALLEL_TABLES):
            self._sessions.put(spark.newSession())
        self._pool = ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="background")
        self._jobs: dict[str, _Job] = {}

    def start(self, topic: str, positions: Positions, job: Callable[[SparkSession], TopicOutcome]) -> None:
        """Start to mirror a table, of which readers see everything below ``positions`` meanwhile."""
        self._jobs[topic] = _Job(self._pool.submit(self._run, job), positions)

    def _run(self, job: Callable[[SparkSession], TopicOutcome]) -> TopicOutcome:
        session = self._sessions.get()
        try:
            return job(session)
        finally:
            self._sessions.put(session)

    def busy(self) -> dict[str, Positions]:
        """Return the tables that are under way, and what readers see of them."""
        return {topic: job.positions for topic, job in self._jobs.items()}

    def finished(self) -> dict[str, Future[TopicOutcome]]:
        """Return the tables that have ended since the last call."""
        done = {topic: job.future for topic, job in self._jobs.items() if job.future.done()}
        for topic in done:
            del self._jobs[topic]
        return done
