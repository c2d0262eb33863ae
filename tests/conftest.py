"""What a failure tells, wherever a stack was used."""

from collections.abc import Generator

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
