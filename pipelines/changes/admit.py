"""Admit: which change rows go on, and which become dead letters. (What a table's contract says of them is asked by
:mod:`pipelines.changes.enforce`.)
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.sources.base.change_rows import NO_KEY, OPERATIONS, PARKED, TRUNCATE, UNKNOWN_OPERATION


def admit(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """``changes`` with ``problem`` set as well on rows that can't be keyed: a null in the key, or in a table without a
    key (``keys`` is empty) no old row where an existing one is changed.
    """
    row = F.col("row")
    operation = F.col("op")
    if keys:
        missing = F.lit(False)
        for key in keys:
            missing = missing | row.getField(key).isNull()
        unkeyed = (operation != TRUNCATE) & missing
    else:
        unkeyed = operation.isin("u", "d") & F.col("before").isNull()
    problem = (
        F.when(F.col("problem").isNotNull(), F.col("problem"))
        .when(~operation.isin(*OPERATIONS), F.lit(UNKNOWN_OPERATION))
        .when(unkeyed, F.lit(NO_KEY))
    )
    return changes.withColumn("problem", problem)


def park(changes: DataFrame, waiting: DataFrame) -> DataFrame:
    """``changes`` with ``problem`` set as well on the rows that ``waiting`` names by ``partition`` and ``offset``."""
    named = F.broadcast(waiting.withColumn("waits", F.lit(True)))
    joined = changes.join(named, ["partition", "offset"], "left")
    problem = F.coalesce("problem", F.when(F.col("waits"), F.lit(PARKED)))
    return joined.withColumn("problem", problem).select(*changes.columns)
