"""The demo, small: it prints what the README shows, numbers aside, and source and lake are equal."""

import re
import sys
from pathlib import Path

import pytest

from tests.documents import page
from tests.integration.guides import ANYTHING, lacking
from tests.integration.stack import Stack

pytestmark = pytest.mark.process

DEMO = f"{sys.executable} -m services.demo --scale 0.01 --seconds 12 --rate 20"


def test_the_demo_prints_what_is_shown(stack: Stack) -> None:
    """Its exit code says whether source and lake are equal."""
    blocks = page(Path("README.md")).blocks
    demo = next(number for number, block in enumerate(blocks) if "make demo" in block.text)
    shown = [line for line in blocks[demo + 1].text.splitlines() if line]
    assert len(shown) == 10
    printed = stack.bash(DEMO)
    between = [line for each in shown for line in (ANYTHING, _without_numbers(each))]
    lacks = lacking("\n".join([*between, ANYTHING]), _without_numbers(printed))
    assert lacks is None, f"not printed: {lacks}\n{printed}"


def _without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,]*(?<=\d)", "0", text)
