"""What is kept of every task and batch."""

import gc
import weakref

import pytest
import structlog
from pyspark.sql import SparkSession

from pipelines.spark.leaks import MAPS, Leaks
from tests.unit.pipelines.harness import Topic, create, update


def test_nothing_of_a_batch_is_kept(spark: SparkSession) -> None:
    leaks = Leaks(spark._jvm, structlog.get_logger())
    topic = Topic(spark)
    mirror = topic.mirror()
    leaks.clear()
    topic.apply(mirror, topic.batch([create(1, 1, "a"), create(2, 2, "b")]), 0)
    topic.apply(mirror, topic.batch([update(3, 1, "c")]), 1)
    assert topic.rows() == [(1, "c", "d"), (2, "b", "d")]
    assert all(leaks.sizes[library] > 0 for library in MAPS), f"it keeps nothing by itself any more: {leaks.sizes}"
    leaks.clear()
    assert leaks.sizes == dict.fromkeys(MAPS, 0)
    topic.apply(mirror, topic.batch([update(4, 2, "d")]), 2)
    assert topic.rows() == [(1, "c", "d"), (2, "d", "d")]


def test_a_library_without_it_is_left_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAPS, "avro", lambda jvm: jvm.org.apache.avro.NoSuchThing.get())
    with structlog.testing.capture_logs() as said:
        leaks = Leaks(spark._jvm, structlog.get_logger())
    leaks.clear()
    assert [(line["event"], line["library"]) for line in said] == [("not_let_go", "avro")]
    assert leaks.sizes == {"arrow": 0}


def test_python_holds_no_plan_that_nobody_uses(spark: SparkSession) -> None:
    leaks = Leaks(spark._jvm, structlog.get_logger())
    gc.disable()
    try:
        plan = spark.range(1)._jdf
        assert plan.count() == 1
        held = weakref.ref(plan)
        del plan
        assert held() is not None, "it goes by itself now: there is no need to collect"
        leaks.clear()
        assert held() is None
    finally:
        gc.enable()
