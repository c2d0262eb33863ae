"""One local Spark session for these tests, with an Iceberg catalog in a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.jvm import remember_classes
from pipelines.session import DRIVER_JAVA_OPTIONS, ENGINE_CONF

JARS = Path(__file__).parents[3] / ".lakehouse/toolchain/jars/spark"


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    jars = ":".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    assert jars, f"no jars in {JARS}: run `make up` or `python3 -m infra.toolchain install`"
    builder = SparkSession.builder.master("local[2]").appName("unit tests")
    for key, value in ENGINE_CONF.items():
        builder = builder.config(key, value)
    session = (
        builder.config("spark.driver.extraClassPath", jars)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", f"{DRIVER_JAVA_OPTIONS} -XX:TieredStopAtLevel=1")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.cache-enabled", "false")
        .config("spark.sql.catalog.lake.warehouse", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    remember_classes(session._jvm)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
