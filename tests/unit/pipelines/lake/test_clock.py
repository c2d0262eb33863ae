"""A clock that is behind what the lake says: nothing is tried that Iceberg would refuse, and the table says why."""

import time

import pytest
from pyspark.sql import SparkSession

from pipelines.errors import StopPipeline
from pipelines.lake import clock
from tests.unit.pipelines.harness import Topic, create, update


class Clock:
    """Stands where the time module is: the table's own times are of the JVM's clock, which stays right."""

    def __init__(self, behind: float) -> None:
        self.behind = behind

    def time(self) -> float:
        return time.time() - self.behind


def test_a_table_of_a_time_to_come_waits_for_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(spark)
    topic.apply(topic.mirror(), topic.batch([create(1, 1, "a")]), 0)
    later = topic.batch([update(2, 1, "b"), create(3, 2, "c")])
    monkeypatch.setattr(clock, "time", Clock(behind=3600))
    with pytest.raises(StopPipeline, match=r"shop\.t\d+ was last changed at .*60 minutes after .*clock-wrong\.md"):
        topic.apply(topic.mirror(), later, 1)
    assert topic.rows() == [(1, "a", "d")]
    monkeypatch.setattr(clock, "time", Clock(behind=clock.TOLERANCE_SECONDS / 2))
    topic.apply(topic.mirror(), later, 1)
    assert topic.rows() == [(1, "b", "d"), (2, "c", "d")]
    topic.assert_ledger_is_whole()
