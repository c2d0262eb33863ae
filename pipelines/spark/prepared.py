"""Plans that are made once and run again and again: Spark analyses, optimises and plans each the first time only.

What a run is of is told to its tasks by a property of the thread that asks; the leaf of the plan looks there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

# What a run is of: the leaf's own business.
ASKED = "lakehouse.asked"
# What keeps what it computed the first time, in Spark's names for the steps of a plan.
_KEEPING = ("Exchange", "AdaptiveSparkPlan", "InMemoryTableScan", "BroadcastQueryStage", "ShuffleQueryStage")
_CONSTANT = ("LocalTableScan", "Project", "Subquery", "ReusedSubquery", "WholeStageCodegen", "InputAdapter")
PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}

Read = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class KeepsState(ValueError):
    """A plan would give again what its first run gave. The message names the step."""


def leaf(session: SparkSession, read: Read, types: str) -> DataFrame:
    """Return a frame of one partition that ``read`` gives, which a worker calls anew in each run.

    ``read`` must take all of its input, which is nothing to it, or its worker isn't used again.
    """
    return session.range(0, 1, 1, 1).mapInArrow(read, types)


class PreparedPlan:
    """A frame that is planned. Runs side by side, by threads of their own. Raises KeepsState."""

    def __init__(self, frame: DataFrame) -> None:
        plan = frame._jdf.queryExecution().executedPlan()
        for step in _steps(plan):
            if any(name in step for name in _KEEPING):
                raise KeepsState(step)
        subqueries = plan.subqueriesAll()
        for index in range(subqueries.size()):
            for step in _steps(subqueries.apply(index)):
                # One that is of constants gives the same each time.
                if not step.startswith(_CONSTANT):
                    raise KeepsState(f"subquery of {step}")
        self._frame = frame

    def run(self, asked: str) -> pa.Table:
        """Return what the plan gives of ``asked``."""
        context = self._frame.sparkSession.sparkContext
        context.setLocalProperty(ASKED, asked)
        try:
            return self._frame.toArrow()
        finally:
            context.setLocalProperty(ASKED, None)  # type: ignore[arg-type]


def _steps(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for index in range(children.size()):
        yield from _steps(children.apply(index))
