"""What a look at the catalog tells of a table that has changed since the last one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from pipelines.lake.properties import DERIVED, KIND
from services.console.look import catalog
from services.console.look.catalog import added_bytes
from tests.unit.services.console.house import settings, specs, view

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


def test_the_manifests_of_a_changed_table_are_read_once_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``inspect.partitions`` reads them, ``inspect.all_manifests`` only their lists."""
    asked: list[str] = []
    counts = dict.fromkeys(
        ("record_count", "file_count", "total_data_file_size_in_bytes", "position_delete_record_count",
         "position_delete_file_count", "equality_delete_file_count"), 3,
    )  # fmt: skip

    def told(name: str, *rows: dict[str, Any]) -> Any:
        def ask() -> Any:
            asked.append(name)
            return pa.Table.from_pylist(list(rows))

        return ask

    snapshot = SimpleNamespace(
        timestamp_ms=1_000, summary=SimpleNamespace(additional_properties={}, operation=None), manifests=lambda _: [],
        snapshot_id=7,
    )  # fmt: skip
    changed: Any = SimpleNamespace(
        name=lambda: ("marts", "spent"), metadata_location="2.json", properties={KIND: DERIVED}, io=None,
        current_snapshot=lambda: snapshot, snapshots=lambda: [snapshot], refs=dict,
        spec=lambda: SimpleNamespace(fields=["at_day"]), schema=lambda: SimpleNamespace(column_names=[], fields=[]),
        metadata=SimpleNamespace(statistics=[], snapshots=[snapshot]),
        inspect=SimpleNamespace(
            partitions=told("partitions", counts), all_manifests=told("lists", {"path": "a", "length": 9})
        ),
    )  # fmt: skip
    monkeypatch.setattr(catalog, "facts", lambda *_: view("marts.spent").facts)
    monkeypatch.setattr(catalog, "_promise", lambda *_: (None, None))
    found = catalog.CatalogPart(settings(tmp_path), specs())._view(changed, None)
    assert found.condition is not None
    assert (found.condition.partition_files, found.condition.metadata_bytes) == (9, 9)
    assert sorted(asked) == ["lists", "partitions"]
