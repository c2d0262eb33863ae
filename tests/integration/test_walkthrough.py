"""quality/WALKTHROUGH.md: its commands are run as they stand there, and what they print is held against it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from markdown_it import MarkdownIt
from pydantic import SecretStr

from pipelines.protection.crypto import ProtectionKeys
from tests.integration.stack import CHECKOUT, Stack, wait_until
from tests.integration.test_published import catalog

pytestmark = pytest.mark.process

DOCUMENT, CONTRACT = "quality/WALKTHROUGH.md", "quality/contracts/public.customers.yaml"
ANYTHING, DONE = "…", "== step done"
# What a test's stack has otherwise than a checkout: its code isn't what is installed, its toolchain is lent, and it is
# no repository of its own.
PREPARED = """
exec 2>&1
export PYTHONPATH="$PWD" GIT_CEILING_DIRECTORIES="${PWD%/*}"
make() { command make --assume-old=setup "$@"; }
"""


@dataclass(frozen=True)
class Step:
    """Commands, what the document says that they print, and the line where it says so."""

    line: int
    commands: str
    shown: str = ANYTHING


def steps(document: str) -> list[Step]:
    """Every block of ``sh``, with the block of ``text`` right behind it."""
    fences = [token for token in MarkdownIt().parse(document) if token.type == "fence"]
    found = []
    for fence in fences:
        assert fence.map is not None
        if fence.info == "sh":
            found.append(Step(fence.map[0] + 1, fence.content))
        else:
            assert fence.info == "text", f"line {fence.map[0] + 1}: a block of {fence.info}"
            found[-1] = Step(found[-1].line, found[-1].commands, fence.content)
    return found


def lacking(shown: str, printed: str) -> str | None:
    """The first line of ``shown`` that was not printed where it should be; None: all is as shown."""
    lines, at, anywhere = printed.splitlines(), 0, False
    for line in shown.splitlines():
        if line.strip() == ANYTHING:
            anywhere = True
            continue
        words = (".*".join(map(re.escape, word.split(ANYTHING))) for word in line.split())
        wanted = re.compile(r"\s*" + r"\s+".join(words) + r"\s*")
        while anywhere and at < len(lines) and not wanted.fullmatch(lines[at]):
            at += 1
        if at == len(lines) or not wanted.fullmatch(lines[at]):
            return line
        at, anywhere = at + 1, False
    return None if anywhere or at == len(lines) else f"nothing more, but there is: {lines[at]}"


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


@pytest.fixture
def put_back(stack: Stack) -> Iterator[None]:
    """However the walk ends, the contract is as it was, and so are the shop's customers."""
    contract = stack.folder / CONTRACT
    before = contract.read_text(encoding="utf-8")
    yield
    stack.sql("DELETE FROM customers WHERE customer_id < 0")
    if contract.read_text(encoding="utf-8") != before:
        contract.write_text(before, encoding="utf-8")
        stack.up()


@pytest.mark.usefixtures("put_back")
def test_the_walk_through_goes_as_it_is_written(stack: Stack) -> None:
    walked = steps((CHECKOUT / DOCUMENT).read_text(encoding="utf-8"))
    ended = f'\nstatus=$?; echo "{DONE}"; [ $status = 0 ] || exit $status\n'
    printed = stack.bash(PREPARED + "".join(f"{step.commands}{ended}" for step in walked)).split(f"{DONE}\n")
    for step, said in zip(walked, printed, strict=False):
        lacks = lacking(step.shown, said)
        assert lacks is None, f"{DOCUMENT}, line {step.line}: not printed: {lacks}\n{said}"

    everything = "".join(printed)
    keys = ProtectionKeys.of(SecretStr(stack.setting("PROTECTION_KEY")))
    assert keys is not None
    assert f"-1 {keys.hashed('adabecker.1@example.com')} ***cker gold" in everything
    assert not [secret for secret in stack.secrets if secret in everything]

    assert (stack.folder / CONTRACT).read_text() == (CHECKOUT / CONTRACT).read_text()
    stack.assert_equal("customers")
    assert not stack.lakehouse("dlq", "list", "--key=-4")["letters"]
    wait_until(lambda: "full_name" not in columns(stack))


def columns(stack: Stack) -> list[str]:
    """What the restricted role is shown of customers."""
    return list(catalog(stack, "restricted").load_table("restricted_shop.customers").schema().column_names)
