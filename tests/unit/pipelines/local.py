"""A Spark session without servers, with an Iceberg catalog in a folder."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.mirror.jit import QUICK_COMPILER
from pipelines.spark.py4j_cache import cache_classes
from pipelines.spark.session import DRIVER_JAVA_OPTIONS, ENGINE_CONF

JARS = Path(__file__).parents[3] / ".lakehouse/toolchain/jars/spark"


def local_session(warehouse: Path, java_options: str = QUICK_COMPILER, memory: str = "1g") -> SparkSession:
    """A session of two cores; ``java_options``: as ``SPARK_JAVA_OPTIONS``."""
    jars = ":".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    assert jars, f"no jars in {JARS}: run `make up` or `python3 -m infra.toolchain install`"
    conf = ENGINE_CONF | {
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": f"{DRIVER_JAVA_OPTIONS} {java_options}",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("local")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    cache_classes(session._jvm)
    session.sparkContext.setLogLevel("ERROR")
    return session
