"""The stack of the process runner, shared by the tests that need all of it; they run in the order they are written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.postgres import Server, postgres_server
from tests.integration.stack import DEAD_PROXY, Stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("lake house ")
    running = Stack(Path(folder), "process")
    running.proxies = DEAD_PROXY
    # Numbers have other digits there.
    running.server_java_options += " -Duser.language=ar -Duser.country=EG"
    running.prepare()
    try:
        running.up()
        yield running
    finally:
        running.make("down")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL alone, as the stack's source is set up."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running
