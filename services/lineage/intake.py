"""Intake: takes OpenLineage events, one by one or several at once, from whoever has the API key."""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from structlog.stdlib import BoundLogger

from lineage.errors import NotAnEvent
from lineage.received import Received
from lineage.shapes import Json
from lineage.store import Store
from services.lineage.body import posted_json
from services.lineage.counters import Counters


def intake_routes(store: Store, api_key: str, counters: Counters, log: BoundLogger) -> APIRouter:
    """Return the routes by which events come into a store."""
    router = APIRouter()
    bearer = HTTPBearer(auto_error=False)

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        if given is None or not secrets.compare_digest(given.credentials.encode(), api_key.encode()):
            raise HTTPException(401, "events are taken with the API key (LINEAGE_API_KEY in .env) as bearer token")

    async def posted(request: Request) -> Any:
        try:
            return await posted_json(request)
        except HTTPException:
            counters.refused.labels("body").inc()
            raise

    @router.post("/api/v1/lineage", status_code=201, dependencies=[Depends(allowed)])
    async def lineage_event(request: Request) -> Response:
        replaced = await run_in_threadpool(_take, await posted(request))
        return JSONResponse({"replaced": replaced}, 201) if replaced else Response(status_code=201)

    @router.post("/api/v1/lineage/batch", dependencies=[Depends(allowed)])
    async def lineage_events(request: Request) -> Json:
        body = await posted(request)
        if not isinstance(body, list):
            raise HTTPException(400, "a batch is a JSON array of events; one event is posted to /api/v1/lineage")
        return await run_in_threadpool(_take_each, body)

    def _take_each(events: list[Any]) -> Json:
        refused: list[Json] = []
        for index, event in enumerate(events):
            try:
                _take(event)
            except HTTPException as error:
                refused.append({"index": index, "reason": error.detail, "retriable": False})
        counts = {
            "received": len(events), "successful": len(events) - len(refused), "failed": len(refused),
            "retriable": 0, "non_retriable": len(refused),
        }  # fmt: skip
        return {
            "status": "partial_success" if refused else "success", "summary": counts, "failed_events": refused,
        }  # fmt: skip

    def _take(body: Any) -> list[str]:
        if not isinstance(body, dict):
            raise HTTPException(400, "an event is a JSON object")
        try:
            received = Received(body)
        except NotAnEvent as error:
            counters.refused.labels("event").inc()
            raise HTTPException(400, str(error)) from None
        (counters.taken if store.take(received) else counters.repeated).inc()
        if received.replaced:
            counters.replaced.inc()
            log.warning("replaced", producer=str(received.event.producer), places=received.replaced)
        return received.replaced

    return router
