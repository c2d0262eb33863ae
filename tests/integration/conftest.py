"""The stack of the process runner, shared by the tests of this folder; they run in the order they are written."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.integration.stack import Stack


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure's report what the stack has to say."""
    report = yield
    running = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(running, Stack):
        report.sections.append(("the stack", running.diagnosis()))
    return report


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
