"""The page of the reference that says what every command takes: `make reference` writes it from `--help`."""

import os
import subprocess
from collections.abc import Iterator
from unittest import mock

import typer
from typer import rich_utils
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from pipelines.metrics import page as metrics
from services.cli.main import app
from services.stack.settings import CHECKOUT

PAGE = "docs/reference/commands.md"
WIDTH = 80
HEAD = """# Commands
`make reference` writes this page from `--help`; a test holds it to the code. Guides say when to use which command.

`lakehouse` is `.lakehouse/toolchain/venv/bin/lakehouse` in the checkout. In containers, `docker compose run --rm cli`
is the same. Exit codes: 0 ok, 1 the check failed, 2 usage or environment.

## make
"""


def document() -> str:
    """The whole page."""
    targets = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": ""},
    ).stdout
    parts = [HEAD + _block(targets)]
    for words in commands(typer.main.get_command(app), "lakehouse"):
        parts.append(f"## {' '.join(words)}\n{_block(said(words[1:]))}")
    return "\n".join(parts)


def commands(command: object, *names: str) -> Iterator[tuple[str, ...]]:
    """The words of a command, and those of every command below it, in the order of `--help`."""
    yield names
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            if not (isinstance(each, TyperCommand) and each.hidden):
                yield from commands(each, *names, name)


def said(words: tuple[str, ...]) -> str:
    """What `--help` prints of a command, on a terminal of a fixed width and without colours."""
    with (
        mock.patch.object(rich_utils, "MAX_WIDTH", WIDTH),
        mock.patch.object(rich_utils, "FORCE_TERMINAL", None),
        mock.patch.object(rich_utils, "COLOR_SYSTEM", None),
    ):
        return CliRunner().invoke(app, [*words, "--help"], prog_name="lakehouse").stdout


def _block(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    (CHECKOUT / PAGE).write_text(document(), encoding="utf-8")
    (CHECKOUT / metrics.PAGE).write_text(metrics.document(), encoding="utf-8")
