"""One local Spark session for these tests, with an Iceberg catalog in a folder."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.unit.pipelines.local import local_session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()
