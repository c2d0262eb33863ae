"""What contracts promise, and what checks have found: now, and over time."""

from fastapi import APIRouter, HTTPException, Request, Response

from services.checker import record as checks
from services.console.accounts import ACTIONS, QUERIES, Checked, Operator, Viewer
from services.console.context import Console
from services.console.rows import table_rows
from services.operations.audit_trail import audited
from services.stack.lake import open_catalog

RUNS = 30
# Data Docs are markup that another program made: they run nothing, send nothing, and see none of the console. A page
# that may keep its origin takes its session along when somebody goes on from it; without scripts that is all.
DOCS_HEADERS = {
    "Content-Security-Policy": "sandbox allow-same-origin; default-src 'none'; style-src 'self'; img-src 'self' data:;"
    " form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    # A page that has a sandbox can't have this as well (HTML, 7.4.5).
    "Cross-Origin-Opener-Policy": "unsafe-none",
}  # fmt: skip


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    @routes.get("/quality")
    def page(request: Request, who: Viewer) -> Response:
        rows = {row.name: row for row in table_rows(console.house)}
        runs = sorted(console.house.checks.values(), key=lambda run: (not run.couldnt_ask, -run.failed, run.table))
        without = [row for row in rows.values() if row.view.promise is None]
        return console.page(request, who, "quality.html", runs=runs, rows=rows, without=without)

    @routes.get("/quality/history")
    def history(request: Request, who: Viewer) -> Response:
        found: dict[str, list[checks.CheckRun]] = {}
        for run in sorted(checks.history(open_catalog(console.settings), RUNS), key=lambda run: run.started_at):
            found.setdefault(run.table, []).append(run)
        return console.page(request, who, "quality_history.html", found=found)

    @routes.get("/quality/{name:path}/docs")
    def docs(request: Request, who: Viewer, name: str, run: str = "") -> Response:
        newest = console.house.checks.get(name)
        is_newest = newest is not None and run in ("", newest.run)
        found = newest if is_newest else checks.run_of(open_catalog(console.settings), run) if run else None
        if found is None or found.table != name:
            raise HTTPException(404, f"there is no such run of checks of {name}")
        body = console.data_docs.known(found.run)
        if body is None:
            console.accounts.check_rate(QUERIES, who.role)
            document = checks.document(open_catalog(console.settings), [found.run]).get(found.run)
            if document is None:
                why = found.error or "it couldn't ask anything"
                raise HTTPException(404, f"this run of {name} has no Data Docs: {why}")
            body = console.data_docs.page(found, document)
        answer = console.templates.TemplateResponse(request, "data_docs.html", {"run": found, "body": body})
        answer.headers.update(DOCS_HEADERS)
        return answer

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
