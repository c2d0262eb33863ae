"""What runs beside what, where tests are run by two workers (`--dist loadgroup`)."""

from pathlib import Path

import pytest

# One shares a stack, and its tests run in the order they are written; the others bring their own.
GROUPS = {"integration": "stack", "runner": "runners", "compose": "runners"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that need servers into two groups, by their folder."""
    here = Path(__file__).parent
    for item in items:
        group = GROUPS.get(item.path.relative_to(here).parts[0])
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
