"""SCENARIOS.md names tests that are there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"test_\w+(?:\.py|…)?")
DEFINED = re.compile(r"^def (test_\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def names() -> set[str]:
    files = list(TESTS.rglob("test_*.py"))
    return {path.name for path in files}.union(*(DEFINED.findall(path.read_text(encoding="utf-8")) for path in files))


def test_every_test_that_a_scenario_names_is_there(names: set[str]) -> None:
    named = NAMED.findall((TESTS / "SCENARIOS.md").read_text(encoding="utf-8"))
    assert len(named) > 100
    assert [name for name in named if not _there(name, names)] == []


def _there(name: str, names: set[str]) -> bool:
    return any(each.startswith(name[:-1]) for each in names) if name.endswith("…") else name in names
