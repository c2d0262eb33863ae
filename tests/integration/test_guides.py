"""The README's and the guides' commands are run as they stand there, and what they print is held against them."""

import shutil
from pathlib import Path

import pytest

from tests.documents import page, paths
from tests.integration.guides import lacking, outputs, script, steps
from tests.integration.stack import Stack

pytestmark = pytest.mark.process

TEST = "tests/integration/test_guides.py::test_a_guide_goes_as_it_is_written"
GUIDES = [path for path in paths() if any(block.test == TEST for block in page(path).commands)]


@pytest.fixture(scope="module")
def loaded(stack: Stack) -> Stack:
    """A stack with a small shop in it."""
    stack.run_shop("load", "--scale", "0.01")
    stack.lakehouse("wait")
    return stack


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_goes_as_it_is_written(loaded: Stack, path: Path) -> None:
    walked = steps(path, TEST)
    try:
        printed = outputs(loaded.bash(script(walked)))
    finally:
        loaded.sql("DROP TABLE IF EXISTS suppliers")
        shutil.rmtree(loaded.folder / ".lakehouse/drafts", ignore_errors=True)
    assert len(printed) == len(walked)
    for step, said in zip(walked, printed, strict=True):
        lacks = lacking(step.shown, said) if step.shown else None
        assert lacks is None, f"{path}, line {step.line}: not printed: {lacks}\n{said}"
