"""The pages of docs/reference say what the code has."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.toolchain import environment
from pipelines.metrics import page as metrics
from services.cli import reference
from tests.documents import CHECKOUT, page

REFERENCE = Path("docs/reference")
OURS = ("pipelines", "services", "quality", "lineage", "infra")
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
COMPOSE = (CHECKOUT / "docker-compose.yml").read_text(encoding="utf-8")
PROXIES = (CHECKOUT / "infra/faults/proxies.yml").read_text(encoding="utf-8")


def rows(name: str) -> Iterator[list[str]]:
    """The cells of every row of every table on a page of the reference; of a separator none."""
    for line in page(REFERENCE / name).text.splitlines():
        if line.startswith("|") and not line.startswith("|-"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def names(cell: str) -> list[str]:
    """What a cell has in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def test_commands_are_those_of_help() -> None:
    said = (CHECKOUT / reference.PAGE).read_text(encoding="utf-8")
    assert said == reference.document(), "run `make reference`"


def test_metrics_are_those_that_are_declared() -> None:
    said = (CHECKOUT / metrics.PAGE).read_text(encoding="utf-8")
    assert said == metrics.document(), "run `make reference`"


def test_ports_are_those_of_the_stack() -> None:
    said = {cells[0].strip("`"): cells[1] for cells in rows("ports.md") if cells[0].startswith("`")}
    defaults = {name: value for name, value in environment.defaults().items() if name.endswith("_PORT")}
    faults = dict(re.findall(r"\$\{(FAULTS\w*_PORT):-(\d+)\}", PROXIES))
    assert said == defaults | faults


def test_each_port_is_of_the_service_that_opens_it() -> None:
    said = {cells[0].strip("`"): cells[2] for cells in rows("ports.md") if len(cells) == 4}
    opened: dict[str, str] = {}
    for service, text in re.findall(r"^  ([a-z-]+):\n((?:    .*\n|\n|  *#.*\n)+)", COMPOSE, re.MULTILINE):
        opened |= dict.fromkeys(re.findall(r"ports: \[\"127\.0\.0\.1:\$\{(\w+)\}", text), service)
    assert len(opened) > 8
    assert {port: said.get(port) for port in opened} == opened


def test_settings_are_those_of_the_env_file() -> None:
    page_has = [name for cells in rows("settings.md") for name in names(cells[0])]
    ports = {name for name in environment.defaults() if name.endswith("_PORT")}
    written = {name for group in environment.GROUPS for name in group.values} - ports
    optional = set(re.findall(r"\$\{([A-Z0-9_]+):-", COMPOSE))
    assert sorted(page_has) == sorted(written | optional)


def test_defaults_are_those_of_the_env_file() -> None:
    said = {cells[0].strip("`"): names(cells[1]) for cells in rows("settings.md") if len(cells) == 3}
    defaults = {name: [value] for name, value in environment.defaults().items() if not name.endswith("_PORT")}
    assert {name: said.get(name) for name in defaults} == defaults


@dataclass(frozen=True)
class Line:
    """A line of a log: where it is written, the event, and the keys that the code names there."""

    where: str
    level: str
    event: str
    keys: frozenset[str]


def lines(text: str, where: str) -> Iterator[Line]:
    """Every call of a log's method in a module whose first argument is a text. ``say``: a method that was chosen."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            log, _, level = called.rpartition(".")
            if called == "say" or (level in LEVELS and log.rpartition(".")[2].lstrip("_") == "log"):
                keys = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
                yield Line(f"{where}:{node.lineno}", level, str(node.args[0].value), keys - {"exc_info"})


LOGGED = [
    line
    for folder in OURS
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
    for line in lines(path.read_text(encoding="utf-8"), str(path.relative_to(CHECKOUT)))
]


def described() -> dict[str, list[tuple[str, set[str]]]]:
    """Event to the level and the keys that the page says of it, once a process that logs it."""
    found: dict[str, list[tuple[str, set[str]]]] = {}
    for cells in rows("log-lines.md"):
        if len(cells) == 4 and cells[0] != "event":
            found.setdefault(cells[0].strip("`"), []).append((cells[1], set(names(cells[2]))))
    return found


@pytest.mark.parametrize("line", LOGGED, ids=lambda line: f"{line.where} {line.event}")
def test_every_log_line_is_described(line: Line) -> None:
    said = described().get(line.event, [])
    assert any(line.level in (level, "say") and line.keys <= keys for level, keys in said), said


def test_no_log_line_is_described_that_nobody_writes() -> None:
    assert len(LOGGED) > 50
    assert set(described()) - {line.event for line in LOGGED} == set()


def test_every_key_of_a_batch_s_line_is_described() -> None:
    """The keys are read from the one function that makes the line, wherever it is."""
    (keys,) = [
        {key.value for key in node.keys if isinstance(key, ast.Constant)}
        for path in sorted((CHECKOUT / "pipelines").rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name == "batch_line"
        for returned in ast.walk(function) if isinstance(returned, ast.Return)
        for node in [returned.value] if isinstance(node, ast.Dict)
    ]  # fmt: skip
    said = {cells[0].strip("`") for cells in rows("log-lines.md") if len(cells) == 2}
    assert keys <= said


def test_calls_of_a_log_are_found_and_no_others() -> None:
    text = (
        "self._log.info('a', b=1, **c)\nlog.error('d', exc_info=e)\nmath.log('f')\nlogging.getLogger('g')\nsay('h')\n"
    )
    assert [(line.level, line.event, set(line.keys)) for line in lines(text, "t")] == [
        ("info", "a", {"b"}), ("error", "d", set()), ("say", "h", set()),
    ]  # fmt: skip


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", page(Path("docs/explanation/glossary.md")).text, re.MULTILINE)
    assert len(terms) >= 30
    assert terms == sorted(terms, key=str.casefold)


def test_the_readme_is_read_in_minutes() -> None:
    assert 600 <= len(page(Path("README.md")).text.split()) <= 800
