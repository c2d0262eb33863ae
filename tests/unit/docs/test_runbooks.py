"""Runbooks: each is in the index, and each that an error names is there."""

import re
from pathlib import Path

import pytest

from tests.documents import CHECKOUT, page

RUNBOOKS = Path("infra/runbooks")
INDEX = page(RUNBOOKS / "README.md")
PAGES = sorted(path.stem for path in (CHECKOUT / RUNBOOKS).glob("*.md") if path.name != "README.md")
NAMED = re.compile(r"infra/runbooks/([\w-]+)\.md")
CODE = (".py", ".sh", ".yml", ".yaml", ".sql")


def test_every_runbook_is_in_the_index() -> None:
    linked = {link.partition(".md")[0] for _, link in INDEX.links if not link.startswith("..")}
    assert sorted(linked) == PAGES


def test_every_runbook_that_code_names_is_there() -> None:
    named = {
        (name, str(path.relative_to(CHECKOUT)))
        for folder in ("infra", "services", "pipelines", "quality", "lineage", "tests")
        for path in (CHECKOUT / folder).rglob("*")
        if path.suffix in CODE and path.is_file()
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 8
    assert [each for each in sorted(named) if each[0] not in PAGES] == []


def test_no_error_sends_people_to_the_readme() -> None:
    found = [
        str(path.relative_to(CHECKOUT))
        for folder in ("infra", "services", "pipelines", "quality", "lineage")
        for path in (CHECKOUT / folder).rglob("*.py")
        if "README, " in path.read_text(encoding="utf-8")
    ]
    assert found == []


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_says_what_is_seen_why_and_what_to_do(name: str) -> None:
    text = page(RUNBOOKS / f"{name}.md").text
    assert all(f"**{word}" in text for word in ("You see**", "Why.**", "Do"))


@pytest.mark.parametrize("name", PAGES)
def test_what_a_runbook_says_to_do_is_run_by_a_test(name: str) -> None:
    commands = [block for block in page(RUNBOOKS / f"{name}.md").blocks if block.language == "sh"]
    assert commands
    assert [block.line for block in commands if block.test is None] == []
