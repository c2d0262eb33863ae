"""What is left of others' markup: nothing that runs, asks other hosts or leads elsewhere, and all that is text."""

import pytest

from quality.markup import cleaned, inert

EVIL = "<script>alert(1)</script>"


@pytest.mark.parametrize(("page", "left"), [
    pytest.param("<p class='a' id=b>x &amp; y</p>", '<p class="a" id="b">x &amp; y</p>', id="as it is"),
    pytest.param("a<script>alert(1)</script>b", "ab", id="script"),
    pytest.param("a<SCRIPT SRC=//evil.example></SCRIPT>b", "ab", id="script of another host"),
    pytest.param("<p onclick=alert(1) style='background:url(//e)' data-x=1>x</p>", "<p>x</p>", id="attributes"),
    pytest.param("a<img src=x onerror=alert(1)>b<link href=//e><input>c", "abc", id="elements without an end"),
    pytest.param("<a href='javascript:alert(1)'>x</a>", "x", id="link that runs"),
    pytest.param("<a href='https://e'>x</a><a href=../y>z</a>", "xz", id="link to elsewhere"),
    pytest.param("<a href='#s'>x</a>", '<a href="#s">x</a>', id="link inside"),
    pytest.param("<svg><script>1</script><a href='#'>x</a></svg>y", "y", id="drawing"),
    pytest.param("<div class='card mb-3'><p>x<script></script></p></div>y", "y", id="a card of actions"),
    pytest.param("<style>p{}</style><custom>x</custom>", "x", id="unknown element"),
    pytest.param("<div><p>x</div>y", "<div><p>x</p></div>y", id="never ended"),
    pytest.param("<ul><li>x", "<ul><li>x</li></ul>", id="cut off"),
    pytest.param("x</div></body>y", "xy", id="ended twice"),
    pytest.param("a<!-- <script> --><!doctype html><?php 1 ?>b", "ab", id="comments"),
    pytest.param("<nav>x<br><img></nav>y", "y", id="void inside what is left out"),
])  # fmt: skip
def test_what_is_left(page: str, left: str) -> None:
    assert cleaned(page) == left


@pytest.mark.parametrize("text", [EVIL, "\"' onload=alert(1) x='", "a < b && c > d", "&lt;script&gt;", "käse 🧀"])
def test_a_text_of_data_comes_out_as_it_was_whoever_renders_it(text: str) -> None:
    """Unescaped, as Great Expectations does in places."""
    (held,) = inert([text])
    out = cleaned(f'<p class="{held}">{held}</p>')
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = shown.replace('"', "&quot;").replace("'", "&#x27;")
    assert out == f'<p class="{shown}">{shown}</p>'


def test_plain_data_is_held_to_the_last_text() -> None:
    held = inert({EVIL: [1, None, True, {"k": (EVIL, 2.5)}]})
    assert "<" not in f"{held}"
    assert next(iter(held.values()))[:3] == [1, None, True]


def test_nobody_brings_a_stand_in_along() -> None:
    assert "<" not in cleaned(f"{inert(chr(0xE000))}")
