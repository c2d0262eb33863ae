from collections.abc import Iterator

import pytest

from tests.unit.services.shop.server import Server, postgres_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("postgres")
    with postgres_server(folder) as running:
        yield running
