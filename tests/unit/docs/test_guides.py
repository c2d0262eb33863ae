"""What a guide says that its commands print is held against what they print."""

from itertools import pairwise
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


def test_what_is_shown_is_right_behind_the_commands() -> None:
    guides = [path for path in paths() if any("test_guides.py" in (b.test or "") for b in page(path).commands)]
    assert len(guides) > 4
    for path in guides:
        blocks = page(path).blocks
        before = [first.language for first, second in pairwise(blocks) if second.language == "text"]
        assert set(before) <= {"sh"}, path
