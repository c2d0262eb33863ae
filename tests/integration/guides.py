"""Guides: pages whose commands are run as they stand there, and what they print is held against them."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.documents import Block, page
from tests.integration.stack import Stack

RUNBOOKS = Path("infra/runbooks")
ANYTHING, DONE = "…", "== step done"
# What a test's stack has otherwise than a checkout: its code isn't what is installed, its toolchain is lent, but for
# what INSTALLED names, and it is no repository of its own.
PREPARED = """
exec 2>&1
export PYTHONPATH="$PWD" GIT_CEILING_DIRECTORIES="${PWD%/*}"
make() {
  if [ "$1" = up ]; then
    shift
    [ -z "${INSTALLED-}" ] || python3 -m infra.toolchain install $INSTALLED || return
    .lakehouse/toolchain/venv/bin/python -m services.runner up "${@#s=}"
  else command make --assume-old=setup "$@"; fi
}
"""


@dataclass(frozen=True)
class Step:
    """Commands, what the page says that they print, and the line where it says so. None: it doesn't say."""

    line: int
    commands: str
    shown: str | None = None


def steps(path: Path, test: str) -> list[Step]:
    """The blocks of a page that ``test`` runs, each with the block of ``text`` right behind it."""
    found: list[Step] = []
    last: Block | None = None
    for block in page(path).blocks:
        if block.language == "sh" and block.test == test:
            found.append(Step(block.line, block.text))
        elif block.language == "text" and last is not None and last.language == "sh" and last.test == test:
            found[-1] = replace(found[-1], shown=block.text)
        last = block
    return found


def script(walked: Iterable[Step]) -> str:
    """One script of all steps, which ends with the first that fails; :func:`outputs` takes apart what it prints."""
    ended = f'\nstatus=$?; echo "{DONE}"; [ $status = 0 ] || exit $status\n'
    return PREPARED + "".join(f"{step.commands}{ended}" for step in walked)


def follow(stack: Stack, page: Path, test: str, **names: str) -> str:
    """Do what a page says for a symptom that ``test`` has made; what that printed.

    ``names``: what stands in its commands for what a person puts in.
    """
    walked = steps(page, test)
    assert walked, f"{page} has nothing to do that names {test}"
    return stack.bash(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in names.items()) + script(walked)
    )


def outputs(printed: str) -> list[str]:
    """What each step printed."""
    return printed.split(f"{DONE}\n")[:-1]


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
