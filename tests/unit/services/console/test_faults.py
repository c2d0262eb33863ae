"""Faults in the console, without servers: who sees them, who switches them, and what the audit trail has of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipelines.failpoints import arm, fired
from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from services.console.app import create_app
from services.console.context import Console
from services.console.pages import faults
from services.operations.audit_trail import Action
from services.stack.stopping import Stop
from tests.unit.services.console.house import PASSWORDS, house, settings, specs
from tests.unit.services.console.test_pages import HTML, token

FORM = {"name": "before-merge", "because": "a rehearsal"}


@pytest.fixture
def trail(monkeypatch: pytest.MonkeyPatch) -> list[Action]:
    """What was written into the audit trail, which is in no lake here."""
    written: list[Action] = []

    @contextmanager
    def audited(_: Any, action: str, target: str, because: str | None, by: str | None = None) -> Iterator[Action]:
        written.append(Action(action, target, because, by=by))
        yield written[-1]

    monkeypatch.setattr(faults, "audited", audited)
    monkeypatch.setattr(faults, "open_catalog", lambda _: None)
    return written


def enter(folder: Path, role: str, shown: bool = True) -> TestClient:
    known = settings(folder).model_copy(update={"console_faults": shown})
    app = create_app(Console.of(known, house(), specs(), json_log()), Meter("console"), Stop())
    client = TestClient(app, headers=HTML, follow_redirects=False)
    client.post("/login", data={"name": role, "password": PASSWORDS[role]})
    return client


def test_the_admin_arms_a_failpoint_and_takes_it_back(tmp_path: Path, trail: list[Action]) -> None:
    client = enter(tmp_path, "admin")
    form = {**FORM, "csrf": token(client)}
    answer = client.post("/operations/fault", data={**form, "action": "error"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/operations?done=fault-on")
    assert (tmp_path / "failpoints/before-merge").read_text(encoding="utf-8") == "error"
    first = client.get("/operations/faults").text.split("<tr>")[2]
    assert ("before-merge" in first, "armed" in first) == (True, True), "what is on comes first"
    client.post("/operations/fault", data={**form, "off": "true"})
    assert not (tmp_path / "failpoints/before-merge").exists()
    assert [(each.action, each.target, each.because, each.by, each.detail["switched"]) for each in trail] == [
        ("fault", "before-merge", "a rehearsal", "admin@console", "error"),
        ("fault", "before-merge", "a rehearsal", "admin@console", "off"),
    ]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_see_which_are_on_and_switch_none(tmp_path: Path, trail: list[Action], role: str) -> None:
    client = enter(tmp_path, role)
    arm(tmp_path / "failpoints", "after-merge")
    assert ">armed<" in client.get("/operations/faults").text
    assert "Switch on" not in client.get("/operations").text
    assert client.post("/operations/fault", data={**FORM, "csrf": token(client)}).status_code == 403
    assert (trail, fired(tmp_path / "failpoints", "before-merge")) == ([], False)


@pytest.mark.parametrize(("changed", "status", "why"), [
    pytest.param({"csrf": ""}, 403, "session", id="no token"),
    pytest.param({"because": " "}, 422, "", id="no reason"),
    pytest.param({"name": "before-lunch"}, 404, "there is no fault before-lunch", id="unknown"),
    pytest.param({"name": "../../x"}, 404, "there is no fault", id="a path"),
    pytest.param({"action": "explode"}, 422, "", id="unknown action"),
    pytest.param({"name": "catalog-slow"}, 409, "make proxies", id="a stack without proxies"),
])  # fmt: skip
def test_what_is_refused(tmp_path: Path, trail: list[Action], changed: dict[str, str], status: int, why: str) -> None:
    client = enter(tmp_path, "admin")
    answer = client.post("/operations/fault", data={**FORM, "csrf": token(client), **changed})
    assert (answer.status_code, why in answer.text) == (status, True)
    assert not (tmp_path / "failpoints").exists()


def test_they_are_not_there_where_the_settings_say_so(tmp_path: Path, trail: list[Action]) -> None:
    client = enter(tmp_path, "admin", shown=False)
    assert "rehearsal" not in client.get("/operations").text
    assert client.get("/operations/faults").status_code == 404
    assert client.post("/operations/fault", data={**FORM, "csrf": token(client)}).status_code == 404
    assert trail == []
