"""A stack with proxies between its services, shared by these tests."""

from collections.abc import Iterator

import pytest

from tests.integration.stack import PROXIES, Stack, loaded


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with loaded(tmp_path_factory.mktemp("lakehouse"), PROXIES) as running:
        yield running
