"""The demo's pictures: they are drawn, whatever there is to be drawn, and what differs looks different."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.demo.pictures import Point, draw

START = datetime(2026, 5, 1, tzinfo=UTC)
AGES: list[Point] = [(START + timedelta(seconds=s), 1.0 + s % 7) for s in range(60)]
ROWS: dict[str, list[Point]] = {"orders": [(START, 10.0), (START + timedelta(seconds=30), 900.0)], "empty": []}


@pytest.mark.parametrize(("ages", "rows", "killed"), [
    (AGES, ROWS, START + timedelta(seconds=40)), ([], {}, None), (AGES[:1], {"orders": ROWS["orders"][:1]}, None),
])  # fmt: skip
def test_a_run_is_drawn(
    tmp_path: Path, ages: list[Point], rows: dict[str, list[Point]], killed: datetime | None
) -> None:
    paths = draw(tmp_path / "demo", ages, rows, killed)
    assert [path.name for path in paths] == ["freshness.png", "rows.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_the_kill_is_marked(tmp_path: Path) -> None:
    with_it, _ = draw(tmp_path / "a", AGES, ROWS, START + timedelta(seconds=40))
    without, _ = draw(tmp_path / "b", AGES, ROWS, None)
    assert with_it.read_bytes() != without.read_bytes()
