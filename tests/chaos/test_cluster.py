"""A mirror whose work is done by an executor of Spark's master and worker, as in containers: these are killed, too."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.stack import CLUSTER, PYTHON, WAIT_SECONDS, Stack, loaded

pytestmark = pytest.mark.process
STRANGER = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).config("spark.cores.max", "1").appName("stranger").getOrCreate()
print(spark.range(10).count())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with loaded(tmp_path_factory.mktemp("cluster"), CLUSTER) as running:
        yield running


def test_the_work_is_done_by_an_executor(cluster: Stack) -> None:
    commands = [" ".join(process.cmdline()) for process in cluster.processes("spark-worker")]
    assert any("org.apache.spark.executor.CoarseGrainedExecutorBackend" in command for command in commands)
    assert not [command for command in commands if cluster.setting("SPARK_SECRET_KEY") in command]


@pytest.mark.parametrize("server", ["spark-master", "spark-worker"])
def test_it_goes_on_after_a_kill_of_its(cluster: Stack, server: str) -> None:
    with cluster.workload(rate=5, seed=len(server)):
        cluster.moves_on()
        cluster.make("kill", f"s={server}")
        cluster.moves_on(100)
    cluster.assert_equal()


def test_it_goes_on_after_the_master_has_come_back_without_its_state(cluster: Stack) -> None:
    with cluster.workload(rate=5, seed=3):
        cluster.moves_on()
        shutil.rmtree(cluster.folder / ".lakehouse/data/spark-master/recovery")
        cluster.make("kill", "s=spark-master")
        cluster.moves_on(100)
    cluster.assert_equal()
    assert '"event": "no_executors"' in cluster.log("mirror")


def test_what_waits_behind_a_letter_is_known_without_the_executor_that_found_it(cluster: Stack) -> None:
    cluster.sql("CREATE TABLE lasting (id bigint PRIMARY KEY)", "INSERT INTO lasting VALUES (1)")
    cluster.assert_equal("lasting")
    cluster.produce("lasting", b"not avro")
    cluster.sql("INSERT INTO lasting VALUES (2)")
    cluster.assert_equal("lasting")
    cluster.make("kill", "s=spark-worker")
    cluster.sql("INSERT INTO lasting VALUES (3)")
    cluster.assert_equal("lasting")
    assert cluster.lakehouse("table", "list")["held"] == {}
    assert cluster.lakehouse("dlq", "list", "--topic", "shop.public.lasting")["total"] == 1


def test_who_has_not_the_secret_runs_nothing_on_it(cluster: Stack) -> None:
    master = f"spark://127.0.0.1:{cluster.setting('SPARK_MASTER_PORT')}"
    tried = subprocess.run(
        [PYTHON, "-c", STRANGER, master], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert tried.returncode != 0
    assert tried.stdout == ""
    assert "All masters are unresponsive" in tried.stderr
