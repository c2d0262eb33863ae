"""What contracts promise, and what checks have found: now, and over time."""

from fastapi import APIRouter, HTTPException, Request, Response

from services.checker import record as checks
from services.console.accounts import ACTIONS, Checked, Operator, Viewer
from services.console.context import Console
from services.console.rows import table_rows
from services.operations.audit_trail import audited
from services.stack.lake import open_catalog

RUNS = 30


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    @routes.get("/quality")
    def page(request: Request, who: Viewer) -> Response:
        rows = {row.name: row for row in table_rows(console.house)}
        runs = sorted(console.house.checks.values(), key=lambda run: (not run.error, -run.failed, run.table))
        without = [row for row in rows.values() if row.view.promise is None]
        return console.page(request, who, "quality.html", runs=runs, rows=rows, without=without)

    @routes.get("/quality/history")
    def history(request: Request, who: Viewer) -> Response:
        found: dict[str, list[checks.CheckRun]] = {}
        for run in sorted(checks.history(open_catalog(console.settings), RUNS), key=lambda run: run.started_at):
            found.setdefault(run.table, []).append(run)
        return console.page(request, who, "quality_history.html", found=found)

    @routes.post("/quality/{name:path}/check")
    def check(request: Request, who: Operator, checked: Checked, name: str) -> Response:
        del checked
        console.accounts.check_rate(ACTIONS, who.role)
        if name not in console.house.tables:
            raise HTTPException(404, f"no table of the lake is called {name}")
        catalog = open_catalog(console.settings)
        with audited(catalog, "check", name, None, who.name):
            checks.ask(catalog, [name], False)
        return console.page(request, who, "said.html", said=f"Asked for: the checker looks at {name} next.")

    return routes
