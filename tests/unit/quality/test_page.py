"""Great Expectations' own page of a run: no scripts, no other hosts, names as text."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from quality import page
from quality.docs import Page, build

EVIL = "<script>alert(1)</script>"
AT = datetime(2026, 5, 1, tzinfo=UTC)


def result(kind: str, success: bool, found: dict[str, Any], error: str | None = None, **kwargs: Any) -> dict[str, Any]:
    return {
        "success": success, "meta": {}, "result": found,
        "expectation_config": {"type": kind, "kwargs": {"batch_id": "lake", **kwargs}, "meta": {"promise": EVIL},
                               "severity": "critical"},
        "exception_info": {"raised_exception": error is not None, "exception_message": error,
                           "exception_traceback": error},
    }  # fmt: skip


def document() -> dict[str, Any]:
    """A result as the checker keeps it, with names that nobody would choose."""
    rows = {"element_count": 100, "unexpected_count": 3, "unexpected_percent": 3.0, "missing_count": 0}
    results = [
        result("expect_column_values_to_not_be_null", True, {**rows, "unexpected_count": 0}, column="id"),
        result("expect_column_values_to_be_unique", False, rows, column=EVIL),
        result("expect_column_values_to_be_in_set", False, {**rows, "partial_unexpected_list": [EVIL]}, column="state",
               value_set=["open", EVIL]),
        result("expect_table_row_count_to_be_between", True, {"observed_value": 4}, min_value=1, max_value=10),
        result("expect_column_values_to_match_regex", False, {}, EVIL, column="mail", regex="^[^@<]+$"),
    ]  # fmt: skip
    results[0]["expectation_config"]["description"] = f"{EVIL} [x](javascript:alert(1))"
    return {
        "success": False, "results": results, "suite_name": EVIL, "suite_parameters": {}, "id": None,
        "statistics": {"evaluated_expectations": 5, "successful_expectations": 2, "unsuccessful_expectations": 3,
                       "success_percent": 40.0},
        "meta": {"great_expectations_version": "1.24.1", "batch_markers": {"ge_load_time": EVIL},
                 "active_batch_definition": {"data_asset_name": EVIL}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def rendered() -> str:
    return page.render(Page(f"shop.{EVIL}", 7, AT, json.loads(json.dumps(document()))))


def test_it_runs_nothing_and_asks_nobody(rendered: str) -> None:
    assert re.findall(r"<(?:script|style|link|img|iframe|form|object)|\son\w+=|\sstyle=|\ssrc=|javascript:|https?://",
                      re.sub(r"\[x\]\(javascript:alert\(1\)\)", "", rendered)) == []  # fmt: skip
    assert set(re.findall(r'href="(.)', rendered)) == {"#"}


def test_names_are_text(rendered: str) -> None:
    assert EVIL not in rendered
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;"
    # The table, a column, a value of a set, an error.
    assert rendered.count(shown) >= 4
    assert f"shop.{shown}" in rendered
    assert "&amp;lt;" not in rendered


def test_it_says_what_was_found(rendered: str) -> None:
    text = " ".join(re.sub(r"<[^>]*>", " ", rendered).split())
    for said in ("Evaluated Expectations 5", "Successful Expectations 2", "40%", "snapshot-7",
                 "must belong to this set", "expect_column_values_to_match_regex raised an exception"):  # fmt: skip
        assert said in text
    # What stands for icons has a class that the console's styles give a text.
    assert {"fa-check-circle", "fa-times", "fa-exclamation-triangle"} <= set(re.findall(r"fa-[a-z-]+", rendered))


def test_names_are_text_in_the_static_site_too_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    """Great Expectations escapes neither."""
    evil = "<img src=x onerror=alert(1)>"
    first = build(tmp_path / "site", [Page(f"shop.{evil}", 7, AT, document())])
    pages = [path for path in (tmp_path / "site").rglob("*.html") if path.is_file()]
    assert len(pages) == 2
    for each in pages:
        text = each.read_text(encoding="utf-8")
        assert (evil in text, EVIL in text) == (False, False)
    (link,) = set(re.findall(r"'(validations/[^']*)'", first.read_text(encoding="utf-8")))
    assert (first.parent / unquote(link)).is_file()
