"""Executors that are JVMs of their own: a cluster within this machine, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[3]
CLUSTER = """
import json
import sys
from threading import Thread
import structlog
from pyspark import SparkConf
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed
from pipelines import executors
from pipelines.executors import Attendance, Executors
from pipelines.session import abandon, end_session, launch

conf = SparkConf().setMaster("local-cluster[1,1,512]").setAppName("cluster").set("spark.ui.enabled", "false")
conf.set("spark.executor.memory", "512m").set("spark.driver.memory", "512m").set("spark.executor.cores", sys.argv[1])
spark = launch(conf, {})
executors.LOOK_SECONDS = 0.1
"""
RENEWED = """
structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
log = structlog.get_logger()
young, old = Executors(spark, log), Executors(spark, log, hours=0)

@retry(retry=retry_if_result(lambda ages: not ages), wait=wait_fixed(0.2), stop=stop_after_delay(120))
def there(besides):
    return [executor for executor in old.ages if executor not in besides]

counted, first = [spark.range(10).count()], there([])
young.renew()
counted, untouched = [*counted, spark.range(20).count()], list(old.ages)
old.renew()
print(json.dumps([first, untouched, there(first), [*counted, spark.range(30).count()]]))
end_session(spark)
"""
MISSED = """
attendance = Attendance(spark, seconds=1)
work = Thread(target=lambda: spark.range(0, 10**13, 1, 1).selectExpr("sum(id % 7)").collect(), daemon=True)

def held(condition, seconds):
    again = retry(retry=retry_if_result(lambda held: not held), wait=wait_fixed(0.2), stop=stop_after_delay(seconds))
    try:
        return bool(again(condition)())
    except RetryError:
        return False

if sys.argv[1] == "1":
    spark.range(10).count()
idle = held(attendance.none, 3)
work.start()
assert held(spark.sparkContext.statusTracker().getActiveStageIds, 60)
print(json.dumps([idle, held(attendance.none, float(sys.argv[2]))]), flush=True)
abandon(spark, 0)
"""


def _run(script: str, *arguments: str) -> Any:
    """What a script prints, whose session on a cluster of one core has executors of ``arguments[0]`` cores."""
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER + script, *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_oldest_is_replaced_once_it_is_too_old() -> None:
    first, untouched, second, counted = _run(RENEWED, "1")
    assert first == untouched
    assert second
    assert not {*first} & {*second}
    assert counted == [10, 20, 30]


def test_that_there_is_none_is_noticed() -> None:
    """Not while nothing is asked of them. The cluster has no core for the second one that each wants."""
    assert _run(MISSED, "2", "30") == [False, True]


def test_one_that_works_is_not_missed() -> None:
    assert _run(MISSED, "1", "5") == [False, False]
