"""What is due and was done for tables, how services are, who did what."""

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from pipelines.failpoints import FAILPOINTS
from pipelines.maintenance.plan import RequestKind
from services.console.accounts import ACTIONS, Checked, Operator, Viewer
from services.console.context import Console
from services.console.rows import table_rows
from services.operations.audit_trail import audited
from services.operations.faults.switch import NETWORK
from services.operations.maintain.requests import leave
from services.stack.lake import open_catalog

SHOWN = 100
DONE = {
    "asked": "Asked for: the mirror does it between two batches.", "fault-off": "The fault is off. Is everything well?",
    "fault-on": "The fault is on. The overview and the alerts tell what comes of it.",
}  # fmt: skip


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    @routes.get("/operations")
    def page(request: Request, who: Viewer, done: str = "") -> Response:
        house = console.house
        rows = table_rows(house)
        due = [(row, task) for row in rows for task in row.view.due]
        return console.page(
            request, who, "operations.html", house=house, due=due, upkeep=house.upkeep[:SHOWN],
            audit=house.audit[:SHOWN], names=[row.name for row in rows], done=DONE.get(done),
            failpoints=FAILPOINTS, proxied=NETWORK, faults=console.settings.console_faults,
        )  # fmt: skip

    @routes.post("/operations/maintain")
    def maintain(
        who: Operator, checked: Checked, table: Annotated[str, Form()], because: Annotated[str, Form()],
        everything: Annotated[bool, Form()] = False,
    ) -> Response:  # fmt: skip
        del checked
        said = console.reason(because)
        console.accounts.check_rate(ACTIONS, who.role)
        if table not in console.house.tables:
            raise HTTPException(404, f"no table of the lake is called {table}")
        catalog = open_catalog(console.settings)
        with audited(catalog, "maintain", table, said, who.name):
            leave(catalog, [table], RequestKind.EVERYTHING if everything else RequestKind.DUE)
        return RedirectResponse("/operations?done=asked", 303)

    return routes
