"""Every relative link of every page leads to a file that is there, and to a heading that is on it."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents import CHECKOUT, page, parsed, paths, slugs

PAGES = paths()


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_links_lead_somewhere(path: Path) -> None:
    assert [f"line {line}: {link}" for line, link in page(path).links if not _leads(path, link)] == []


def _leads(path: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)) if parts.path else path
    found = (CHECKOUT / target).resolve()
    if not found.is_relative_to(CHECKOUT):
        return False
    if not found.exists():
        return False
    if not parts.fragment:
        return True
    return found.suffix == ".md" and unquote(parts.fragment) in page(found.relative_to(CHECKOUT)).anchors


@pytest.mark.parametrize(("headings", "anchors"), [
    (["Add a table"], ["add-a-table"]),
    (["`lakehouse dlq list`"], ["lakehouse-dlq-list"]),
    (["Why, and how?"], ["why-and-how"]),
    (["[A page](a.md) of it"], ["a-page-of-it"]),
    (["Next", "Next"], ["next", "next-1"]),
    (["`.env`: ports"], ["env-ports"]),
])  # fmt: skip
def test_anchors_are_those_of_the_repository_s_host(headings: list[str], anchors: list[str]) -> None:
    assert list(slugs(headings)) == anchors


def test_a_page_is_read_whole() -> None:
    text = "# A\n[b](b.md#c) ![d](d.png)\n\n| e |\n|---|\n| [f](f) `g` |\n\n<!-- test: t::u -->\n```sh\nh\n```\n"
    found = parsed(Path("a.md"), text)
    assert [link for _, link in found.links] == ["b.md#c", "d.png", "f"]
    assert [code for _, code in found.code] == ["g"]
    assert [(block.language, block.text, block.test) for block in found.commands] == [("sh", "h\n", "t::u")]


def test_a_mark_is_of_a_block_or_of_the_page() -> None:
    text = "<!-- tests: a::b -->\n# C\n```sh\nd\n```\n<!-- test: e::f -->\n```sh\ng\n```\nh\n```sh\ni\n```\n"
    assert [block.test for block in parsed(Path("a.md"), text).commands] == ["a::b", "e::f", "a::b"]
