"""The Spark session of a pipeline, and the lock that keeps a second driver out.

The JVM outlives a killed Python driver by moments in which it could still commit. It therefore inherits the lock's file
descriptor: the lock is free only when the last process that could commit is gone.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipelines.settings import MirrorSettings
from pipelines.spark.py4j_cache import cache_classes

CATALOG = "lake"
# Of Iceberg's S3FileIO: whether it deletes files.
DELETES = "s3.delete-enabled"
END_SECONDS = 10


def class_path(jars: Path) -> str:
    """Return the jars of a folder, in an order that is always the same."""
    return ":".join(str(jar) for jar in sorted(jars.resolve().glob("*.jar")))


def lake_conf(settings: MirrorSettings) -> dict[str, str]:
    """Return the Spark configuration of a session that reads and writes the lake. Holds no secret."""
    catalog, jars = f"spark.sql.catalog.{CATALOG}", class_path(settings.spark_jars)
    return {
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "rest",
        f"{catalog}.uri": str(settings.catalog_uri),
        f"{catalog}.warehouse": settings.warehouse,
        f"{catalog}.cache-enabled": "false",
        # Without these it waits for an answer for ever. A commit that has none is looked up in the table's history.
        f"{catalog}.rest.client.connection-timeout-ms": "10000",
        f"{catalog}.rest.client.socket-timeout-ms": "60000",
        f"{catalog}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{catalog}.s3.endpoint": str(settings.s3_endpoint),
        f"{catalog}.s3.path-style-access": "true",
        f"{catalog}.client.region": settings.s3_region,
        # A commit that is told to have failed may have been made: see pipelines.lake.file_deletion.
        f"{catalog}.{DELETES}": "false",
        **ENGINE_CONF,
    }


ENGINE_CONF = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    # What is kept is read once or twice, soon: looking for a way to make it smaller costs more.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Every table has stages of its own, and compiling one again costs more than running it.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Spark writes a text of every plan for its UI: a megabyte for a wide table, and another one where a statement has a
    # key filter as its parameter. So it has no lists of columns, and is cut.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "0",
    "spark.sql.maxPlanStringLength": "20000",
    # PySpark looks up the line of Python behind every expression, by several calls into the JVM each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Each range of a topic that is read once more leaves consumers, with all that they have fetched, to be used again.
    "spark.kafka.consumer.cache.timeout": "20s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "20s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    "spark.python.daemon.module": "pipelines.spark.worker_daemon",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}
EXECUTOR_JAVA_OPTIONS = "-XX:+UseParallelGC -Duser.timezone=UTC"
# What is freed in one of the C library's arenas, of which there are eight a core, is of use to nobody in another.
FEW_ARENAS = ("MALLOC_ARENA_MAX", "2")
# Both of the JVM's compilers, but the optimising one only for what runs a hundred thousand times.
BOTH_COMPILERS = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=20000"
    " -XX:Tier4CompileThreshold=200000 -XX:Tier4BackEdgeThreshold=400000"
)
# Avro's fast reader is for a driver that works itself: elsewhere nobody lets go what it keeps (pipelines.spark.leaks).
DRIVER_JAVA_OPTIONS = (
    f"{EXECUTOR_JAVA_OPTIONS} -Dorg.apache.avro.fastread=true -XX:ReservedCodeCacheSize=384m"
    " -Dlog4j2.configurationFile=infra/mirror/log4j2.properties"
)


def start_session(settings: MirrorSettings, name: str, ui: bool = True, lasting: bool = False) -> SparkSession:
    """Start a driver, after every earlier driver of this state directory has ended.

    ``ui``: with Spark's web pages. ``lasting``: it runs for days, so heaps are taken at once: what they will be then is
    seen now.
    """
    conf = SparkConf().setMaster(settings.spark_master).setAppName(name)
    for key, value in lake_conf(settings).items():
        conf.set(key, value)
    conf.set("spark.sql.shuffle.partitions", str(settings.shuffle_partitions))
    archived, log = _archive_options(settings.class_archive), Path("infra/spark/log4j2.properties").resolve()
    executor = (EXECUTOR_JAVA_OPTIONS, BOTH_COMPILERS, f"-Dlog4j2.configurationFile={log}")
    for process, memory, options in (
        ("driver", settings.spark_driver_memory, f"{DRIVER_JAVA_OPTIONS} {settings.spark_java_options}"),
        ("executor", settings.spark_executor_memory, " ".join((*executor, settings.spark_executor_java_options))),
    ):
        heap = f"-Xms{memory} -XX:+AlwaysPreTouch" if lasting else ""
        conf.set(f"spark.{process}.memory", memory).set(
            f"spark.{process}.extraJavaOptions", f"{options} {heap} {archived}"
        )
    if settings.spark_executor_cores is not None:
        conf.set("spark.cores.max", str(settings.spark_executor_cores))
    conf.set("spark.driver.bindAddress", settings.spark_driver_bind)
    conf.set("spark.driver.host", settings.spark_driver_host)
    conf.set("spark.ui.port", str(settings.spark_ui_port)).set("spark.ui.enabled", str(ui).lower())
    secret = {}
    if settings.spark_secret_key is not None and settings.spark_master.startswith("spark://"):
        secret = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": settings.spark_secret_key.get_secret_value(),
        }
    arenas, most = FEW_ARENAS
    os.environ.setdefault(arenas, most)
    conf.set(f"spark.executorEnv.{arenas}", os.environ[arenas])
    # Where its pages are served; by themselves they'd be for the whole network.
    os.environ["SPARK_LOCAL_IP"] = settings.spark_driver_bind
    lock = _lock(settings.driver_lock)
    return launch(conf, {"pass_fds": (lock,), "start_new_session": True}, secret)


def launch(conf: SparkConf, process: Mapping[str, Any], secret: Mapping[str, str] | None = None) -> SparkSession:
    """Start a driver in a JVM of its own.

    ``process``: options of ``subprocess.Popen``. ``secret``: of its configuration, what no command line may show.
    """
    # By links or without them, the JVM is given one class path: another one makes its archive useless.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).resolve().parent)
    # What runs in Python beside the JVM is this very Python, with the libraries that it has.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    gateway = launch_gateway(conf, popen_kwargs=dict(process))  # type: ignore[no-untyped-call]
    cache_classes(gateway.jvm)
    for key, value in (secret or {}).items():
        conf.set(key, value)
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


def _archive_options(archive: Path) -> str:
    """Return options by which the JVM uses an archive of :mod:`pipelines.mirror.class_archive`.

    It goes without if the archive doesn't fit.
    """
    if not archive.exists() or not archive.stat().st_size:
        return ""
    return f'"-XX:SharedArchiveFile={archive.resolve()}" -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off'


def end_session(spark: SparkSession) -> None:
    """End the driver, and return once its JVM is gone, which is killed if it doesn't end by itself."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    # It ends with whoever has the other end of this.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def abandon(spark: SparkSession, code: int) -> NoReturn:
    """End this process and its JVM at once, as if they were killed: whatever is under way commits nothing any more."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.proc.kill()
    leave(code)


def leave(code: int) -> NoReturn:
    """End this process without waiting for threads, and its JVM with it.

    A thread that answers Spark's callbacks may wait for a query that is gone.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give the session these ``settings`` within the block; its own come back after it."""
    before = {key: session.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            if was is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, was)
