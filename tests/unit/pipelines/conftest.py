"""One local Spark session for these tests, with an Iceberg catalog in a folder."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tests.unit.pipelines.local import local_session


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def unique() -> Callable[[], str]:
    """Gives names that nothing else has."""
    numbers = itertools.count()
    return lambda: f"unique_{next(numbers)}"
