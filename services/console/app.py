"""The application: sessions and headers around the pages."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Form, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from requests.exceptions import RequestException
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.sessions import SessionMiddleware

from pipelines.metrics.meter import Meter
from services.console.accounts import Checked, NotSignedIn, Viewer
from services.console.context import Console
from services.console.history import Told
from services.console.pages import alerts, faults, letters, lineage, operations, overview, quality, sql, tables
from services.stack.errors import LakehouseError
from services.stack.stopping import Stop

STATIC = Path(__file__).with_name("static")
TICK_SECONDS = 3.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip


def create_app(console: Console, meter: Meter, stop: Stop) -> FastAPI:
    """Return the application."""
    app = FastAPI(title="lakehouse console", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(
        SessionMiddleware, secret_key=console.settings.console_secret.get_secret_value(), session_cookie="lakehouse",
        max_age=12 * 3600, same_site="strict",
    )  # fmt: skip
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _answer_errors(app, console)

    @app.middleware("http")
    async def with_headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        static = request.url.path.startswith("/static/")
        response.headers.setdefault("Cache-Control", "max-age=3600" if static else "no-store")
        return response

    @app.get("/health")
    def health() -> dict[str, bool]:
        return {"healthy": True}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(meter.registry), media_type=CONTENT_TYPE_LATEST)

    @app.post("/hooks/alerts")
    def told(alerts_told: Told, authorization: Annotated[str, Header()] = "") -> dict[str, int]:
        wanted = f"Bearer {console.settings.console_alerts_token.get_secret_value()}"
        if not hmac.compare_digest(authorization.encode(), wanted.encode()):
            raise HTTPException(403, "only Alertmanager tells of alerts")
        console.history.add(alerts_told)
        return {"alerts": len(alerts_told.alerts)}

    @app.get("/live")
    async def live(who: Viewer) -> StreamingResponse:
        del who

        async def ticks() -> AsyncIterator[str]:
            while not stop.asked:
                yield "event: tick\ndata: {}\n\n"
                await asyncio.sleep(TICK_SECONDS)

        return StreamingResponse(ticks(), media_type="text/event-stream")

    for room in (overview, tables, letters, lineage, quality, operations, faults, alerts, sql):
        app.include_router(room.router(console))
    _sign_in(app, console)
    return app


def _sign_in(app: FastAPI, console: Console) -> None:
    @app.get("/login")
    def form(request: Request, next: str = "/") -> Response:
        return console.templates.TemplateResponse(request, "login.html", {"next": _inside(next), "wrong": False})

    @app.post("/login")
    def enter(
        request: Request, name: Annotated[str, Form()], password: Annotated[str, Form()],
        next: Annotated[str, Form()] = "/",
    ) -> Response:  # fmt: skip
        if console.accounts.sign_in(request, name, password):
            console.log.info("signed_in", role=name)
            return RedirectResponse(_inside(next), 303)
        console.log.warning("sign_in_refused")
        said = {"next": _inside(next), "wrong": True}
        return console.templates.TemplateResponse(request, "login.html", said, status_code=401)

    @app.post("/logout")
    def leave(request: Request, who: Checked) -> Response:
        del who
        request.session.clear()
        return RedirectResponse("/login", 303)


def _inside(path: str) -> str:
    """Return a path of the console, whatever was asked for."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def _answer_errors(app: FastAPI, console: Console) -> None:
    @app.exception_handler(NotSignedIn)
    def sign_in_first(request: Request, error: NotSignedIn) -> Response:
        if request.headers.get("hx-request") or request.url.path == "/live":
            return Response(status_code=401, headers={"HX-Redirect": "/login"})
        return RedirectResponse(f"/login?next={error.next}", 303)

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, error: StarletteHTTPException) -> Response:
        return _said(request, console, error.status_code, str(error.detail))

    @app.exception_handler(RequestException)
    def silent(request: Request, error: RequestException) -> Response:
        why = f"The Iceberg catalog gives no answer ({type(error).__name__}). Look whether it was done."
        return _said(request, console, 503, why)

    @app.exception_handler(LakehouseError)
    def unusable(request: Request, error: LakehouseError) -> Response:
        return _said(request, console, 503, str(error))


def _said(request: Request, console: Console, status: int, why: str) -> Response:
    if "text/html" in request.headers.get("accept", "") or request.headers.get("hx-request"):
        part = bool(request.headers.get("hx-request"))
        # htmx shows only what went well.
        code = 200 if part else status
        return console.templates.TemplateResponse(
            request, "error.html", {"status": status, "why": why, "part": part}, status_code=code
        )
    return JSONResponse({"error": why}, status)
