"""A circuit breaker: when most of a table's batch would be dead letters, a person should see first what is broken."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import StopPipeline
from pipelines.kafka.wire import is_replayed
from pipelines.sources.base.change_rows import PARKED

# A share of a handful of records says nothing.
MINIMUM = 100


def check_share(letters: DataFrame, topic: str, records: int, share: float, accepted: Mapping[int, int]) -> None:
    """Raise StopPipeline if more than ``share`` of ``records`` (and at least ``MINIMUM``) would be dead letters.

    Letters that only wait behind another one or were replayed don't count, nor do those below ``accepted`` (partition
    to offset), which a person has let pass.
    """
    passed = F.lit(False)
    for partition, offset in accepted.items():
        passed = passed | ((F.col("partition") == partition) & (F.col("offset") < F.lit(offset)))
    counted = letters.where((F.col("reason") != PARKED) & ~is_replayed(F.col("headers")) & ~passed)
    reasons = {row.reason: row["count"] for row in counted.groupBy("reason").count().collect()}
    dead = sum(reasons.values())
    if dead < MINIMUM or dead <= share * records:
        return
    listing = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1]))
    raise StopPipeline(
        f"{dead:,} of {records:,} records of {topic} would become dead letters ({listing}). None was written. If they"
        f' are to be, run `lakehouse dlq accept {topic} --because "..."`; else mend the cause, and the table goes on'
        " (infra/runbooks/dead-letters.md)."
    )
