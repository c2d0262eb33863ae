"""A consumer that is collected before it was closed may hold up its process for ever, at full load (librdkafka)."""

import ast
from pathlib import Path

import pytest

import pipelines
import services

ROOTS = [Path(package.__path__[0]) for package in (pipelines, services)]
MAKERS = sorted(
    path
    for root in ROOTS
    for path in root.rglob("*.py")
    if "from confluent_kafka import" in (text := path.read_text(encoding="utf-8")) and "Consumer(" in text
)


@pytest.mark.parametrize("path", MAKERS, ids=[path.stem for path in MAKERS])
def test_who_makes_consumers_closes_them(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Consumer"]
    closed = [
        n
        for n in ast.walk(tree)
        if (isinstance(n, ast.Attribute) and n.attr == "close") or (isinstance(n, ast.Name) and n.id == "closing")
    ]
    assert made
    assert len(closed) >= len(made)
