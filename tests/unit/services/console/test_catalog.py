"""What a look at the catalog tells of a table that has changed since the last one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.table import Table

from services.console.look.catalog import added_bytes
from tests.unit.services.console.house import view

THEN = datetime(2026, 3, 1, tzinfo=UTC)


def table(*commits: tuple[int, int | None]) -> Table:
    """A table with commits, each so many seconds after ``THEN`` and of so many bytes; None: it doesn't say."""

    def snapshot(seconds: int, size: int | None) -> Any:
        said = {} if size is None else {"added-files-size": str(size)}
        at = (THEN + timedelta(seconds=seconds)).timestamp() * 1000
        return SimpleNamespace(timestamp_ms=int(at), summary=SimpleNamespace(additional_properties=said))

    return cast(Table, SimpleNamespace(metadata=SimpleNamespace(snapshots=[snapshot(*each) for each in commits])))


@pytest.mark.parametrize(
    ("since", "added"), [(THEN, 35), (THEN + timedelta(seconds=1), 30), (THEN + timedelta(seconds=9), 0), (None, 42)]
)
def test_what_commits_have_added_since(since: datetime | None, added: int) -> None:
    before = view("shop.orders")
    before = replace(before, facts=replace(before.facts, last_commit=since))
    assert added_bytes(table((0, 7), (1, 5), (2, None), (3, 30)), before) == added
