"""Faults for a rehearsal, on the page Operations: which are on, for everybody; switching them, for the admin."""

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from pipelines.failpoints import FAILPOINTS, Action
from services.console.accounts import ACTIONS, Admin, Checked, Viewer
from services.console.context import Console
from services.operations.audit_trail import audited
from services.operations.faults.network import Network, NoProxies
from services.operations.faults.switch import NETWORK, Faults
from services.stack.lake import open_catalog


def router(console: Console) -> APIRouter:
    """Return the routes; none where the settings hide faults."""
    routes = APIRouter()
    if not console.settings.console_faults:
        return routes
    faults = Faults(console.settings.failpoints_dir, Network(console.settings.faults_url))

    @routes.get("/operations/faults")
    def part(request: Request, who: Viewer) -> Response:
        found = sorted(faults.every(), key=lambda fault: not fault.on)
        return console.page(request, who, "operations_faults.html", faults=found)

    @routes.post("/operations/fault")
    def switch(
        who: Admin, checked: Checked, name: Annotated[str, Form()], because: Annotated[str, Form()],
        action: Annotated[Action, Form()] = "kill", off: Annotated[bool, Form()] = False,
    ) -> Response:  # fmt: skip
        del checked
        said = console.reason(because)
        console.accounts.check_rate(ACTIONS, who.role)
        if name not in FAILPOINTS and name not in NETWORK:
            raise HTTPException(404, f"there is no fault {name}")
        with audited(open_catalog(console.settings), "fault", name, said, who.name) as doing:
            doing.detail["switched"] = "off" if off else action if name in FAILPOINTS else "on"
            try:
                if off:
                    faults.off(name)
                else:
                    faults.on(name, action)
            except NoProxies as error:
                raise HTTPException(409, str(error)) from None
        console.log.info("fault_switched", fault=name, to=doing.detail["switched"])
        return RedirectResponse(f"/operations?done={'fault-off' if off else 'fault-on'}", 303)

    return routes
