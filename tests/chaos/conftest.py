"""A stack with proxies between its services, shared by these tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import pytest_runtest_makereport
from tests.integration.stack import PROXIES, Stack

__all__ = ["pytest_runtest_makereport"]


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(Path(tmp_path_factory.mktemp("lakehouse")), "process", PROXIES)
    running.prepare()
    try:
        running.up()
        running.run_shop("load", "--scale", "0.02")
        running.assert_equal()
        yield running
    finally:
        running.make("down")
