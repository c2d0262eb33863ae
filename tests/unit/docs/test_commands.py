"""Commands on pages exist as they are written there, and each block of them names a test that runs them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from typer.core import TyperGroup

from services.cli.main import app
from tests.documents import CHECKOUT, Block, page, paths

MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
TARGETS = {name for names in re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE) for name in names.split()}
VARIABLES = {*re.findall(r"\$\((\w+)\)", MAKEFILE), *re.findall(r"\b([A-Z]+)=", MAKEFILE)}
LAKEHOUSE = typer.main.get_command(app)
# Pages of others: what was decided and what has changed are told as they were then.
TOLD = ("infra/decisions", "CHANGELOG.md")
# Pages that a person follows: each block of theirs is run by a test.
FOLLOWED = ("README.md", "CONTRIBUTING.md", "docs", "infra/runbooks")
PAGES = [path for path in paths() if not str(path).startswith(TOLD)]
BLOCKS = [(path, block) for path in PAGES for block in page(path).commands]
HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?.*?\n\1\n", re.DOTALL)
SEPARATOR = re.compile(r"\n|;|&&|\|\||\||\$\(|\(|\)|\b(?:do|then|else)\b")
PLACEHOLDER = re.compile(r"[…|\[\]]|\.\.\.")


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of ``make`` or ``lakehouse`` in a script."""
    script = HEREDOC.sub("\n", text + "\n").replace("\\\n", " ")
    script = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in script.splitlines())
    for part in _parts(script):
        words = _words(part)
        while words and re.fullmatch(r"[A-Za-z_]+=.*|!|command", words[0]):
            words.pop(0)
        if words and Path(words[0]).name in ("make", "lakehouse"):
            yield [Path(words[0]).name, *words[1:]]


def _parts(script: str) -> Iterator[str]:
    """Pieces between separators, of which those in quotes are none."""
    masked, quote = "", ""
    for character in script:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        masked += "\0" if quote and character not in "'\"" and not character.isalnum() else character
    at = 0
    for found in SEPARATOR.finditer(masked):
        yield script[at : found.start()]
        at = found.end()
    yield script[at:]
    # What a substitution in double quotes runs.
    yield from re.findall(r'"\$\(([^()"]+)\)"', script)


def _words(part: str) -> list[str]:
    try:
        return [word for word in shlex.split(part) if not word.startswith((">", "2>", "<"))]
    except ValueError:
        return []


def wrong(words: list[str]) -> str | None:
    """What is wrong with a command; None: nothing."""
    return _wrong_make(words[1:]) if words[0] == "make" else _wrong_lakehouse(words[1:])


def _wrong_make(words: list[str]) -> str | None:
    for word in words:
        name, is_set, _ = word.partition("=")
        if is_set and name not in VARIABLES:
            return f"the Makefile has no variable {name}"
        if not is_set and not word.startswith("-") and word not in TARGETS:
            return f"the Makefile has no target {word}"
    return None


def _wrong_lakehouse(words: list[str]) -> str | None:
    try:
        _parsed(LAKEHOUSE, words)
    except click.exceptions.Exit:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"
    return None


def _parsed(command: object, words: list[str]) -> None:
    """Parse as the command line would, without running anything."""
    name = command.name or "lakehouse"
    context = command.make_context(name, [*words], resilient_parsing=False)
    if isinstance(command, TyperGroup):
        rest = [*context._protected_args, *context.args]
        if rest:
            _, found, others = command.resolve_command(context, rest)
            assert found is not None
            _parsed(found, others)


def options(words: list[str]) -> str | None:
    """What is wrong with a command in a sentence, which may leave arguments out; None: nothing."""
    command, rest = LAKEHOUSE, list(words)
    while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if PLACEHOLDER.search(name):
            return None
        if name not in command.commands:
            return f"there is no command {name}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known | {"--help"}]
    return f"there is no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize(("path", "block"), BLOCKS, ids=lambda value: str(getattr(value, "line", value)))
def test_commands_in_blocks_exist(path: Path, block: Block) -> None:
    assert [(words, said) for words in commands(block.text) if (said := wrong(words))] == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_commands_in_sentences_exist(path: Path) -> None:
    found = []
    for line, code in page(path).code:
        words = _words(code.partition(" | ")[0])
        said = None
        if words[:1] == ["lakehouse"]:
            said = options(words[1:])
        elif words[:1] == ["make"] and not PLACEHOLDER.search(code):
            said = _wrong_make(words[1:])
        if said is not None:
            found.append(f"line {line}: {code}: {said}")
    assert found == []


@pytest.mark.parametrize(
    ("path", "block"), [(path, block) for path, block in BLOCKS if str(path).startswith(FOLLOWED)],
    ids=lambda value: str(getattr(value, "line", value)),
)  # fmt: skip
def test_a_block_names_the_test_that_runs_it(path: Path, block: Block) -> None:
    assert block.test is not None, f"{path}, line {block.line}: say `<!-- test: tests/…::test_… -->` before the block"
    file, _, name = block.test.partition("::")
    assert (CHECKOUT / file).is_file(), block.test
    assert re.search(rf"^def {name}\(", (CHECKOUT / file).read_text(encoding="utf-8"), re.MULTILINE), block.test


@pytest.mark.parametrize(("text", "found"), [
    ("make up\nmake logs s=mirror | head", [["make", "up"], ["make", "logs", "s=mirror"]]),
    ("eval \"$(lakehouse env)\"; export a", [["lakehouse", "env"]]),
    (".lakehouse/toolchain/venv/bin/lakehouse wait && echo 'make up'", [["lakehouse", "wait"]]),
    ("[[ $(lakehouse lineage show a.b) == *x* ]] && break", [["lakehouse", "lineage", "show", "a.b"]]),
    ("cat > f <<'END'\nmake nothing\nEND\nA=1 make down # make it", [["make", "down"]]),
    ("lakehouse erase t 4 --because \"a; b\" > f", [["lakehouse", "erase", "t", "4", "--because", "a; b", "f"]]),
])  # fmt: skip
def test_commands_are_found(text: str, found: list[list[str]]) -> None:
    assert list(commands(text)) == found


@pytest.mark.parametrize(("text", "said"), [
    ("make up PROFILES=workload", None),
    ("make ups", "no target ups"),
    ("make logs service=x", "no variable service"),
    ("lakehouse dlq list --key=-4", None),
    ("lakehouse dlq list --keys 4", "No such option"),
    ("lakehouse dlq lists", "No such command"),
    ("lakehouse table show", "Missing"),
    ("lakehouse lineage show --format svg", "svg"),
])  # fmt: skip
def test_what_is_wrong_is_said(text: str, said: str | None) -> None:
    (words,) = commands(text)
    found = wrong(words)
    assert found is None if said is None else said in str(found)


@pytest.mark.parametrize(("words", "right"), [
    (["dlq", "discard", "…", "--because", "…"], True), (["table", "list|show"], True), (["erase", "--dry"], False),
    (["resyncs"], False), (["verify", "--ledger"], True),
])  # fmt: skip
def test_a_sentence_may_leave_arguments_out(words: list[str], right: bool) -> None:
    assert (options(words) is None) is right
