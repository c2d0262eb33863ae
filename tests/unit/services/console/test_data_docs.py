"""Data Docs in the console, without a lake: what is made once, what fails, what the page may do."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from services.checker.record import CheckRun
from services.console.app import create_app
from services.console.context import Console
from services.console.data_docs import MOST_PAGES, DataDocs, NoDataDocs
from services.console.pages import quality
from services.stack.stopping import Stop
from tests.unit.services.console.house import EVIL, PASSWORDS, SECRET, house, settings, specs
from tests.unit.services.console.test_pages import HTML

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAME = f"shop.{EVIL}"
# Stands for Great Expectations: tells what it was asked, and what it could see of the console.
ECHO = (sys.executable, "-c", "import sys, os; print('<p>', sys.stdin.read().replace('<', '&lt;'), dict(os.environ))")
BREAKS = (sys.executable, "-c", "import sys; sys.exit('KeyError: no such renderer')")


def run(identifier: str = "r1", table: str = NAME, error: str | None = None) -> CheckRun:
    return CheckRun(identifier, table, 7, "orders 1.0.0", AT, 2.0, True, 3, 0, 0, None, error)


Enter = Callable[..., TestClient]


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Signs a viewer in to a console whose lake has the runs r1 (the newest), r0, and r9 of another table."""
    older = {"r0": run("r0"), "r9": run("r9", "shop.t0")}
    monkeypatch.setattr(quality, "open_catalog", lambda _: None)
    monkeypatch.setattr(quality.checks, "run_of", lambda _, wanted: older.get(wanted))

    def entered(command: tuple[str, ...] = ECHO, newest: CheckRun | None = None) -> TestClient:
        documents = {name: json.dumps({"run": name}) for name in ("r0", "r1", "r9")}
        monkeypatch.setattr(quality.checks, "document", lambda _, runs: {each: documents[each] for each in runs
                                                                         if each in documents})  # fmt: skip
        seen = house(checks={NAME: newest or run()})
        console = Console.of(settings(tmp_path), seen, specs(), json_log())
        object.__setattr__(console, "data_docs", DataDocs(command))
        client = TestClient(create_app(console, Meter("console"), Stop()), headers=HTML, follow_redirects=False)
        client.post("/login", data={"name": "viewer", "password": PASSWORDS["viewer"]})
        return client

    return entered


def path(name: str = NAME, query: str = "") -> str:
    return f"/quality/{name.replace('/', '%2F')}/docs{query}"


def test_the_page_has_a_policy_of_its_own(enter: Enter) -> None:
    answer = enter().get(path())
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "sandbox allow-same-origin;" in policy
    assert "default-src 'none'; style-src 'self';" in policy
    assert "script" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert EVIL not in answer.text
    assert "shop.&lt;script&gt;" in answer.text
    assert "<script" not in answer.text


@pytest.mark.parametrize(("query", "shown"), [("", "r1"), ("?run=r1", "r1"), ("?run=r0", "r0")])
def test_a_run_is_shown(enter: Enter, query: str, shown: str) -> None:
    page = enter().get(path(query=query)).text
    assert f'{{"run": "{shown}"}}' in page
    assert SECRET not in page
    assert "PYTHONPATH" not in page


@pytest.mark.parametrize(("asked", "status", "why"), [
    pytest.param((path(query="?run=r9"), ECHO, None), 404, "no such run", id="a run of another table"),
    pytest.param((path(query="?run=' OR 1=1"), ECHO, None), 404, "no such run", id="no run"),
    pytest.param((path("shop.t1"), ECHO, None), 404, "no such run", id="a table that was never checked"),
    pytest.param((path(), ECHO, run("r2")), 404, "no Data Docs", id="a run without a document"),
    pytest.param((path(), ECHO, run("r2", error="Spark is full")), 404, "Spark is full", id="a run that failed"),
    pytest.param((path(), BREAKS, None), 503, "no such renderer", id="Great Expectations fails"),
    pytest.param((path(), ("/nowhere",), None), 503, "made no page", id="it can't be started"),
])  # fmt: skip
def test_what_cant_be_shown_says_why(
    enter: Enter, asked: tuple[str, tuple[str, ...], CheckRun | None], status: int, why: str
) -> None:
    where, command, newest = asked
    answer = enter(command, newest).get(where)
    assert (answer.status_code, why in answer.text) == (status, True)


def test_nobody_sees_them_without_signing_in(enter: Enter) -> None:
    client = enter()
    client.cookies.clear()
    assert client.get(path()).status_code == 303


def test_a_page_is_made_once_and_the_oldest_is_forgotten(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = f"open({str(count)!r}, 'a').write('x'); print('<p>made</p>')"
    docs = DataDocs((sys.executable, "-c", script))
    assert docs.known("r0") is None
    for _ in range(3):
        assert docs.page(run("r0"), "{}").strip() == "<p>made</p>"
    assert count.read_text(encoding="utf-8") == "x"
    for number in range(MOST_PAGES):
        docs.page(run(f"n{number}"), "{}")
    assert (docs.known("r0"), docs.known("n0") is not None) == (None, True)


def test_one_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.console.data_docs.SECONDS", 0.2)
    docs = DataDocs((sys.executable, "-c", "import signal; signal.pause()"))
    with pytest.raises(NoDataDocs, match="TimeoutExpired"):
        docs.page(run(), "{}")
