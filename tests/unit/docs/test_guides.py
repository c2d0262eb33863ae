"""What a guide says that its commands print is held against what they print."""

from pathlib import Path

import pytest

from tests.documents import page, paths
from tests.integration.guides import lacking, steps


@pytest.mark.parametrize(("shown", "printed", "lacks"), [
    ("a b\n", "a   b\n", None),
    ("a\n", "a\nb\n", "nothing more, but there is: b"),
    ("a\n…\n", "a\nb\nc\n", None),
    ("a\n…\nc\n", "a\nc\n", None),
    ("a\n…\nc\n", "a\nb\n", "c"),
    ("a … (c)\n", "a lot of b (c)\n", None),
    ("a.b\n", "axb\n", "a.b"),
    ("…\nb\nd\n", "a\nb\nc\nd\n", "d"),
])  # fmt: skip
def test_what_is_printed_is_held_against_what_is_shown(shown: str, printed: str, lacks: str | None) -> None:
    assert lacking(shown, printed) == lacks


def test_a_step_is_a_block_and_what_follows_it() -> None:
    path = Path("docs/guides/walkthrough.md")
    test = "tests/integration/test_walkthrough.py::test_the_walk_through_goes_as_it_is_written"
    walked = steps(path, test)
    assert [step.line for step in walked] == [block.line for block in page(path).commands]
    assert all(step.shown for step in walked)


def test_what_is_shown_belongs_to_a_step() -> None:
    """A block of ``text`` on a page that a test runs as it stands is right behind one of ``sh``."""
    for path in paths():
        tests = {block.test for block in page(path).commands if block.test and "test_guides.py" in block.test}
        shown = [step.shown for test in tests for step in steps(path, test) if step.shown]
        if tests:
            assert [block.text for block in page(path).blocks if block.language == "text"] == shown, path
