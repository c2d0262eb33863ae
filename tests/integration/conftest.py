"""The stack of the process runner, shared by the tests of this folder; they run in the order they are written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("lakehouse")
    running = Stack(Path(folder), "process")
    running.prepare()
    try:
        running.up()
        yield running
    finally:
        running.make("down")
