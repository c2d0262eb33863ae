"""Executors that are JVMs of their own, of a cluster within this machine; a process of its own has the session."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
CHECKOUT = Path(__file__).parents[4]
TOLD = """
import json
from threading import Thread
import structlog
from pyspark import SparkConf
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed
from pipelines.spark import executors
from pipelines.spark.executors import Executors, ExecutorWatch
from pipelines.spark.session import abandon, launch

def held(condition, seconds):
    again = retry(retry=retry_if_result(lambda held: not held), wait=wait_fixed(0.2), stop=stop_after_delay(seconds))
    try:
        return again(condition)()
    except RetryError:
        return False

conf = SparkConf().setMaster("local-cluster[1,1,512]").setAppName("cluster").set("spark.ui.enabled", "false")
spark = launch(conf.set("spark.executor.memory", "512m").set("spark.driver.memory", "512m"), {})
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
log, context = structlog.get_logger(), spark.sparkContext
young, old = Executors(spark, log), Executors(spark, log, hours=0)

told = {"counted": [spark.range(10).count()], "first": held(lambda: list(old.ages), 60)}
young.renew()
told |= {"counted": [*told["counted"], spark.range(20).count()], "untouched": list(old.ages)}
old.renew()
told["second"] = held(lambda: [name for name in old.ages if name not in told["first"]], 60)
told["counted"].append(spark.range(30).count())

executors.LOOK_SECONDS = 0.1
watch = ExecutorWatch(spark, seconds=1)

def missed(seconds):
    work = Thread(target=lambda: spark.range(0, 10**13, 1, 1).selectExpr("sum(id % 7)").collect(), daemon=True)
    work.start()
    assert held(context.statusTracker().getActiveStageIds, 60)
    return bool(held(watch.has_none, seconds))

told["missed at work"] = missed(3)
context.cancelAllJobs()
assert held(lambda: not context.statusTracker().getActiveStageIds(), 60)
# Without another one in its place.
context._jsc.sc().killExecutor(told["second"][0])
assert held(lambda: not old.ages, 60)
told["missed when idle"] = bool(held(watch.has_none, 3))
told["missed when there is none"] = missed(60)
print(json.dumps(told), flush=True)
abandon(spark, 0)
"""


@pytest.fixture(scope="module")
def told() -> Any:
    done = subprocess.run(
        [sys.executable, "-c", TOLD], cwd=CHECKOUT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_oldest_is_replaced_once_it_is_too_old(told: Any) -> None:
    assert told["first"] == told["untouched"]
    assert told["second"]
    assert not {*told["first"]} & {*told["second"]}
    assert told["counted"] == [10, 20, 30]


def test_that_there_is_none_is_noticed_when_there_is_work(told: Any) -> None:
    missed = [told[f"missed {when}"] for when in ("at work", "when idle", "when there is none")]
    assert missed == [False, False, True]
