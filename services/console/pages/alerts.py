"""Alerts: what is wrong now, what was, and what nobody wants to hear of for a while."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import httpx
from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from services.console.accounts import ACTIONS, Checked, Operator, Viewer
from services.console.context import Console
from services.operations.audit_trail import audited
from services.stack.lake import open_catalog

MOST_HOURS = 72
Silence = Annotated[str, Form(pattern=r"^[0-9a-f-]{36}$")]


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    def alertmanager() -> httpx.Client:
        return httpx.Client(base_url=console.settings.alertmanager_url, timeout=5, trust_env=False)

    @routes.get("/alerts")
    def page(request: Request, who: Viewer) -> Response:
        house = console.house
        return console.page(
            request, who, "alerts.html", alerts=house.alerts, silences=house.silences,
            past=[each for each in console.history.newest() if each["status"] == "resolved"],
            down=house.unseen.get("alertmanager"),
        )  # fmt: skip

    @routes.post("/alerts/silence")
    def silence(
        who: Operator, checked: Checked, fingerprint: Annotated[str, Form()], because: Annotated[str, Form()],
        hours: Annotated[float, Form(gt=0, le=MOST_HOURS)] = 2,
    ) -> Response:  # fmt: skip
        del checked
        said = console.reason(because)
        console.accounts.check_rate(ACTIONS, who.role)
        found = next((a for a in console.house.alerts if a["fingerprint"] == fingerprint), None)
        if found is None:
            raise HTTPException(404, "this alert is over")
        now = datetime.now(UTC)
        body = {
            "matchers": [
                {"name": name, "value": value, "isRegex": False, "isEqual": True}
                for name, value in found["labels"].items()
            ],
            "startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=hours)).isoformat(), "createdBy": who.name,
            "comment": said,
        }  # fmt: skip
        target = found["labels"].get("alertname", "")
        with (
            audited(open_catalog(console.settings), "silence", target, said, who.name) as doing,
            alertmanager() as client,
        ):
            doing.detail["hours"] = hours
            answer = client.post("/api/v2/silences", json=body)
            if answer.is_error:
                raise HTTPException(502, f"Alertmanager says {answer.status_code}")
        return RedirectResponse("/alerts", 303)

    @routes.post("/alerts/unsilence")
    def unsilence(
        who: Operator, checked: Checked, silence: Annotated[str, Form(pattern=r"^[0-9a-f-]{36}$")]
    ) -> Response:
        del checked
        console.accounts.check_rate(ACTIONS, who.role)
        with audited(open_catalog(console.settings), "unsilence", silence, None, who.name), alertmanager() as client:
            client.delete(f"/api/v2/silence/{silence}")
        return RedirectResponse("/alerts", 303)

    return routes
