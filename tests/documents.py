"""The repository's Markdown pages: their anchors, links, and blocks of commands."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

CHECKOUT = Path(__file__).resolve().parents[1]
# Folders that hold what was installed or made.
FOREIGN = {".git", ".lakehouse", ".venv", "node_modules", ".pytest_cache", ".ruff_cache", ".mypy_cache"}
# Names the test that runs the commands of the next block (`test`), or of every block of the page (`tests`).
MARK = re.compile(r"<!--\s*(tests?):\s*(\S+)\s*-->")
ID = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")
SHELLS = ("sh", "bash", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block. ``line``: where it begins, from 1; ``test``: the test that runs its commands, by a mark."""

    line: int
    language: str
    text: str
    test: str | None = None


@dataclass(frozen=True)
class Page:
    """A Markdown page. ``path``: relative to the checkout; ``code``: inline code, with its line."""

    path: Path
    text: str
    anchors: frozenset[str] = frozenset()
    links: tuple[tuple[int, str], ...] = ()
    code: tuple[tuple[int, str], ...] = ()
    blocks: tuple[Block, ...] = ()
    headings: tuple[str, ...] = field(default=())

    @property
    def commands(self) -> tuple[Block, ...]:
        """The blocks that a person would paste into a shell."""
        return tuple(block for block in self.blocks if block.language in SHELLS)


def paths(root: Path = CHECKOUT) -> list[Path]:
    """Every Markdown page of the checkout, relative to it."""
    found = (path.relative_to(root) for path in root.rglob("*.md"))
    return sorted(path for path in found if not FOREIGN.intersection(path.parts))


@cache
def page(path: Path, root: Path = CHECKOUT) -> Page:
    """One page, read."""
    return parsed(path, (root / path).read_text(encoding="utf-8"))


def parsed(path: Path, text: str) -> Page:
    """One page, from its text."""
    tokens = MarkdownIt().enable("table").parse(text)
    headings = tuple(inline.content for opening, inline in pairwise(tokens) if opening.type == "heading_open")
    return Page(
        path, text,
        anchors=frozenset({*slugs(headings), *ID.findall(text)}),
        links=tuple(_links(tokens)),
        code=tuple(_code(tokens)),
        blocks=tuple(_blocks(tokens)),
        headings=headings,
    )  # fmt: skip


def slugs(headings: Iterable[str]) -> Iterator[str]:
    """The anchors that a repository's host gives to headings: the second of one name ends in ``-1``."""
    seen: dict[str, int] = {}
    for heading in headings:
        slug = _slug(heading)
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        yield f"{slug}-{count}" if count else slug


def _slug(heading: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    kept = (c for c in shown if c in " -_" or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def _inline(tokens: Iterable[Token]) -> Iterator[tuple[int, Token]]:
    line = 1
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        for child in token.children or ():
            yield line, child


def _links(tokens: Iterable[Token]) -> Iterator[tuple[int, str]]:
    for line, token in _inline(tokens):
        target = token.attrGet({"link_open": "href", "image": "src"}.get(token.type, ""))
        if target is not None:
            yield line, str(target)


def _code(tokens: Iterable[Token]) -> Iterator[tuple[int, str]]:
    return ((line, token.content) for line, token in _inline(tokens) if token.type == "code_inline")


def _blocks(tokens: Iterable[Token]) -> Iterator[Block]:
    of_page = of_next = None
    for token in tokens:
        if token.type == "fence":
            yield Block((token.map or [0])[0] + 1, token.info.strip(), token.content, of_next or of_page)
        mark = MARK.search(token.content) if token.type == "html_block" else None
        of_next = mark[2] if mark and mark[1] == "test" else None
        of_page = mark[2] if mark and mark[1] == "tests" else of_page
