"""Executors that are JVMs of their own: a cluster within this machine, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
RENEWED = """
import json
import structlog
from pyspark import SparkConf
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed
from pipelines.executors import Executors
from pipelines.session import end_session, launch

conf = SparkConf().setMaster("local-cluster[1,1,512]").setAppName("cluster").set("spark.ui.enabled", "false")
spark = launch(conf.set("spark.executor.memory", "512m").set("spark.driver.memory", "512m"), {})
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


def test_the_oldest_is_replaced_once_it_is_too_old() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RENEWED], cwd=CHECKOUT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, untouched, second, counted = json.loads(done.stdout.splitlines()[-1])
    assert first == untouched
    assert second
    assert not {*first} & {*second}
    assert counted == [10, 20, 30]
