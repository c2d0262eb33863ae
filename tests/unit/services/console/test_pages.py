"""Pages, without servers: who may enter, what they see and do, how long it takes."""

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from pipelines.log import json_log
from pipelines.metrics.meter import Meter
from services.console.app import create_app
from services.console.context import Console
from services.console.house import House, Looked, Progress
from services.console.rows import table_rows
from services.stack.stopping import Stop
from tests.unit.services.console.house import EVIL, NOW, PASSWORDS, SECRET, house, settings, specs, view

PAGES = ("/", "/tables", "/streams", "/letters", "/lineage", "/quality", "/operations", "/alerts", "/sql")
HTML = {"accept": "text/html"}
Enter = Callable[..., TestClient]


@pytest.fixture
def enter(tmp_path: Path) -> Enter:
    """Signs somebody in to the console on a house."""

    def entered(role: str | None = "operator", seen: House | None = None) -> TestClient:
        console = Console.of(settings(tmp_path), seen or house(), specs(), json_log())
        client = TestClient(create_app(console, Meter("console"), Stop()), headers=HTML, follow_redirects=False)
        if role is not None:
            answer = client.post("/login", data={"name": role, "password": PASSWORDS[role]})
            assert answer.status_code == 303
        return client

    return entered


def token(client: TestClient) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', client.get("/alerts").text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", PAGES)
def test_nobody_sees_a_page_without_signing_in(enter: Enter, path: str) -> None:
    answer = enter(None).get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={quote(path)}")


@pytest.mark.parametrize("path", [*PAGES, f"/tables/{quote(f'shop.{EVIL}', safe='')}", "/tables/shop.t0"])
def test_a_name_is_text_and_no_page_tells_a_secret(enter: Enter, path: str) -> None:
    answer = enter("admin", house(3, 20)).get(path)
    assert answer.status_code == 200
    assert EVIL not in answer.text
    assert SECRET not in answer.text
    assert not any(password in answer.text for password in PASSWORDS.values())
    # No script or style stands in a page, so the policy that forbids them costs nothing.
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text) == []
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_page_from_outside_isnt_gone_to_after_signing_in(enter: Enter) -> None:
    client = enter(None)
    for wanted, went in (
        ("/tables", "/tables"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil", "/"),
    ):
        answer = client.post("/login", data={"name": "viewer", "password": PASSWORDS["viewer"], "next": wanted})
        assert answer.headers["location"] == went


def test_passwords_are_asked_for_ten_times_a_minute(enter: Enter) -> None:
    client = enter(None)
    answers = [client.post("/login", data={"name": "admin", "password": f"wrong {i}"}).status_code for i in range(12)]
    assert answers == [401] * 10 + [429] * 2


@pytest.mark.parametrize(("path", "form"), [
    ("/letters/replay", {"topic": "t", "reason": "r", "because": "mended"}),
    ("/letters/discard", {"topic": "t", "reason": "r", "because": "mended"}),
    ("/operations/maintain", {"table": "shop.t0", "because": "it is slow"}),
    ("/alerts/silence", {"fingerprint": "f", "because": "known"}),
    ("/quality/shop.t0/check", {}),
    ("/operations/fault", {"name": "before-merge", "because": "a rehearsal"}),
])  # fmt: skip
def test_an_action_takes_a_role_and_a_form_of_the_session(enter: Enter, path: str, form: dict[str, str]) -> None:
    viewer = enter("viewer")
    assert viewer.post(path, data={**form, "csrf": token(viewer)}).status_code == 403
    operator = enter("operator")
    assert operator.post(path, data=form).status_code == 403
    assert operator.post(path, data={**form, "csrf": token(viewer)}).status_code == 403


def test_an_action_takes_a_reason(enter: Enter) -> None:
    client = enter()
    form = {"topic": "t", "reason": "r", "because": " x ", "csrf": token(client)}
    answer = client.post("/letters/replay", data=form)
    assert (answer.status_code, "say why" in answer.text) == (422, True)
    answer = client.post("/letters/discard", data={**form, "because": "known", "topic": ""})
    assert (answer.status_code, "say which letters" in answer.text) == (422, True)


def test_only_alertmanager_tells_of_alerts(enter: Enter) -> None:
    client = enter()
    alert = {
        "status": "resolved", "labels": {"alertname": EVIL, "severity": "page"}, "fingerprint": "f",
        "startsAt": "2026-05-01T12:00:00Z", "endsAt": "2026-05-01T12:05:00Z", "annotations": {"summary": "It was."},
    }  # fmt: skip
    assert client.post("/hooks/alerts", json={"alerts": [alert]}).status_code == 403
    told = client.post("/hooks/alerts", json={"alerts": [alert, alert]}, headers={"authorization": f"Bearer {SECRET}"})
    assert told.status_code == 200
    page = client.get("/alerts").text
    assert page.count("It was.") == 1
    assert EVIL not in page


def test_what_cant_be_seen_is_said_and_the_rest_is_shown(enter: Enter) -> None:
    seen = house()
    seen.looked |= {"catalog": Looked(NOW, 1.0, "The Iceberg catalog doesn't answer", NOW)}
    client = enter("viewer", seen)
    for path in PAGES:
        assert "The Iceberg catalog doesn" in client.get(path).text
    assert "shop.t0" in client.get("/tables").text
    # What is asked for at once says so, in its place.
    part = client.get("/tables/shop.t0/metadata", headers={"hx-request": "true"})
    assert (part.status_code, 'role="alert"' in part.text) == (200, True)
    graph = client.get("/lineage/graph?at=shop.t0", headers={"accept": "application/json"})
    assert (graph.status_code, "lineage service" in graph.json()["error"]) == (503, True)
    assert client.get("/tables/shop.t0/chart?of=freshness").json() == [[], []]


def state_of(seen: House, name: str = "shop.t0") -> tuple[str, str]:
    row = next(row for row in table_rows(seen) if row.name == name)
    return row.state, row.why[0] if row.why else ""


def test_the_worst_of_a_table_is_its_state() -> None:
    seen = house()
    assert state_of(seen) == ("ok", "")
    topic = "topic.shop.t0"
    seen.progress = Progress({topic: 5}, {})
    assert state_of(seen)[0] == "unknown"
    seen.progress = Progress({topic: 5}, {topic: time.time() - 20})
    assert state_of(seen) == ("ok", "")
    seen.progress = Progress({topic: 5}, {topic: time.time() - 100})
    assert state_of(seen) == ("late", "100 s old, of 5 s asked for")
    seen.tables = {**seen.tables, "shop.t0": replace(view("shop.t0"), alerts=("501 files in a partition",))}
    assert state_of(seen)[0] == "late"
    seen.progress = Progress({topic: 5}, {topic: time.time() - 100}, {topic: "its key changed"})
    assert state_of(seen) == ("held", "its key changed")
    seen.progress = Progress({topic: 0}, {}, {topic: "waits: the lake has no shop.b yet"})
    assert state_of(seen)[0] == "waits"


def cost(client: TestClient, path: str, times: int = 7) -> float:
    """The median of some answers, in seconds of this process's CPU: the machine may be busy with others."""
    client.get(path)
    took = []
    for _ in range(times):
        began = time.process_time()
        assert client.get(path).status_code == 200
        took.append(time.process_time() - began)
    return statistics.median(took)


@pytest.mark.parametrize("path", ["/", "/tables", "/tables?sort=fresh&q=t1", "/letters?reason=not_avro"])
def test_a_thousand_tables_and_a_hundred_thousand_letters_dont_slow_a_page(enter: Enter, path: str) -> None:
    """As a ratio: a page shows a hundred tables, or fifty letters, at most."""
    usual, many = enter("operator", house(200, 1_000)), enter("operator", house(1_000, 100_000))
    assert cost(many, path) < 12 * cost(usual, path)
    assert many.get("/tables").text.count('<a href="/tables/shop.') == 100


def test_a_page_of_letters_is_a_page(enter: Enter) -> None:
    client = enter("operator", house(2, 130))
    page = client.get("/letters?topic=topic.shop.t0&reason=not_avro").text
    assert "10 letters of topic.shop.t0, not_avro" in page
    assert client.get("/letters").text.count(":3:") <= 50
    assert "Page 1 of 3" in client.get("/letters").text
    assert "Put them back" in page
    viewer = enter("viewer", house(2, 130))
    assert "Put them back" not in viewer.get("/letters?topic=topic.shop.t0&reason=not_avro").text


def test_the_overview_says_whether_all_is_well(enter: Enter) -> None:
    well = enter("viewer", house()).get("/").text
    assert "All is well" in well
    alert = {"labels": {"alertname": "TableHeld", "severity": "page", "table": "shop.t0"}, "fingerprint": "f",
             "annotations": {"summary": "shop.t0 is held.", "runbook": "infra/runbooks/table-held.md"},
             "startsAt": "2026-05-01T12:00:00Z", "status": {"state": "active", "silencedBy": []}}  # fmt: skip
    page = enter("viewer", house(alerts=(alert,))).get("/").text
    assert "shop.t0 is held." in page
    assert "All is well" not in page
    assert 'class="count">1<' in page
