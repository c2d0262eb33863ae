"""Rules of the rooms that the import rules in pyproject.toml can't say."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PIPELINES = Path(__file__).parents[3] / "pipelines"
# Iceberg's Java objects: a table's own, and classes by their names.
JAVA = re.compile(r"\.java\b(?!\.)|org\.apache\.iceberg\.(?!spark\.(SparkCatalog|extensions))|_jsparkSession\b")
# It makes the JVM load the classes that a mirror needs.
EXEMPT = {"mirror/class_archive.py"}
FLAT_AT_MOST = 10


def modules() -> Iterator[Path]:
    return (path for path in PIPELINES.rglob("*.py") if "__pycache__" not in path.parts)


def test_icebergs_java_objects_are_touched_in_the_lake_alone() -> None:
    found = [
        f"{path.relative_to(PIPELINES)}: {line.strip()}"
        for path in modules()
        if path.relative_to(PIPELINES).parts[0] not in ("lake", "spark")
        and path.relative_to(PIPELINES).as_posix() not in EXEMPT
        for line in path.read_text(encoding="utf-8").splitlines()
        if JAVA.search(line)
    ]
    assert found == []


def test_few_modules_lie_flat() -> None:
    flat = sorted(path.name for path in PIPELINES.glob("*.py") if path.name != "__init__.py")
    assert len(flat) <= FLAT_AT_MOST, flat


@pytest.mark.parametrize("room", sorted({path.parent for path in PIPELINES.rglob("*.py")}), ids=lambda path: path.name)
def test_a_room_says_its_one_job(room: Path) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
    assert said is not None
    assert said.splitlines()[0].endswith("."), said


def test_a_module_is_one_room() -> None:
    long = [f"{path}: {lines}" for path in modules() if (lines := len(path.read_text().splitlines())) > 300]
    assert long == []
