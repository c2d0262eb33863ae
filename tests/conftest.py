"""What runs beside what, where tests are run by two workers (`--dist loadgroup`)."""

from pathlib import Path

import pytest

# One shares a stack, and its tests run in the order they are written; the others bring their own.
GROUPS = {"integration": "stack", "runner": "runners", "compose": "runners"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a test that needs servers into a group, by its folder."""
    group = GROUPS.get(item.path.relative_to(Path(__file__).parent).parts[0])
    if group is not None:
        item.add_marker(pytest.mark.xdist_group(group))
