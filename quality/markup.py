"""Markup of pages that others render: a document's texts can't become tags, and of tags only harmless ones are kept."""

from html import escape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

# What has a meaning in HTML, and the character of Unicode's private use that stands for it while others render.
STAND_INS = dict(zip("<>&\"'", (chr(0xE000 + number) for number in range(5)), strict=True))
_TO_STAND_INS = str.maketrans({**dict.fromkeys(STAND_INS.values(), "\ufffd"), **STAND_INS})
_TO_CHARACTERS = str.maketrans({stand_in: character for character, stand_in in STAND_INS.items()})
_TO_REFERENCES = str.maketrans({stand_in: escape(character) for character, stand_in in STAND_INS.items()})

KEPT = frozenset({
    "a", "b", "br", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol",
    "p", "pre", "small", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
})  # fmt: skip
VOID = frozenset({"br", "hr"})
# Left out with all that is in them: what runs, what asks other hosts, what can't work without either.
DROPPED = frozenset({
    "script", "style", "head", "template", "noscript", "iframe", "object", "svg", "math", "form", "nav", "footer",
    "button", "select", "textarea", "label", "title",
})  # fmt: skip
DROPPED_CLASSES = frozenset({"card", "modal", "fade"})
ATTRIBUTES = frozenset({"class", "id", "hidden", "colspan", "rowspan", "scope"})
# Elements without an end tag, that are left out.
_ALONE = frozenset({
    "area", "base", "col", "embed", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip


def inert(value: Any) -> Any:
    """Return plain data whose texts have no character that means something in HTML; :func:`cleaned` puts them back."""
    if isinstance(value, str):
        return value.translate(_TO_STAND_INS)
    if isinstance(value, dict):
        return {inert(key): inert(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [inert(each) for each in value]
    return value


def restored(text: str) -> str:
    """Return a text as it was before it was made inert."""
    return text.translate(_TO_CHARACTERS)


def escaped(page: str) -> str:
    """Return a page of others as it is, in which inert texts are the text that they were.

    They may have come into its scripts, as Python writes them, and into its links.
    """
    for character, stand_in in STAND_INS.items():
        page = page.replace(ascii(stand_in)[1:-1], escape(character)).replace(quote(stand_in), quote(character))
    return page.translate(_TO_REFERENCES)


def cleaned(page: str) -> str:
    """Return what a page shows, as markup that runs nothing and asks nobody for anything; texts of data are text."""
    parser = _Cleaner()
    parser.feed(page)
    parser.close()
    return "".join(parser.parts)


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        # The elements that are left out, from the outermost that is on: all in them is left out as well.
        self._left_out: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _ALONE:
            return
        if self._left_out or tag in DROPPED or DROPPED_CLASSES & set(given.get("class", "").split()):
            if tag not in VOID:
                self._left_out.append(tag)
            return
        # A link to elsewhere is its text.
        if tag in KEPT and (tag != "a" or given.get("href", "").startswith("#")):
            self.parts.append(f"<{tag}{''.join(_attributes(given))}>")
            if tag not in VOID:
                self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            if tag in self._left_out:
                while self._left_out.pop() != tag:
                    pass
            return
        if tag in self._open:
            while (ended := self._open.pop()) != tag:
                self.parts.append(f"</{ended}>")
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self.parts.append(escape(restored(data)))

    def close(self) -> None:
        super().close()
        self.parts += [f"</{tag}>" for tag in reversed(self._open)]


def _attributes(given: dict[str, str]) -> list[str]:
    kept = {name: value for name, value in given.items() if name in ATTRIBUTES or name.startswith("aria-")}
    if given.get("href", "").startswith("#"):
        kept["href"] = given["href"]
    return [f' {name}="{escape(restored(value))}"' for name, value in kept.items()]
