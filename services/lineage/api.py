"""The endpoint: takes OpenLineage events from whoever sends them, and answers as Marquez does.

Without an API key nothing is taken; reading needs none. Interactive documentation is at ``/docs``.
"""

import secrets
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import psycopg
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from psycopg_pool import PoolTimeout
from structlog.stdlib import BoundLogger

from lineage.answers import ORDERS, Answers, NotKnown
from lineage.errors import NotAnEvent
from lineage.flows import Flows
from lineage.names import Name
from lineage.overview import Overview
from lineage.periods import NoPeriod
from lineage.received import Received
from lineage.shapes import Json
from lineage.store import Store
from services.lineage.body import posted_json
from services.lineage.counters import Counters
from services.lineage.overview import NAMESPACE, Limit, Offset, overview_routes

At = Annotated[datetime | None, Query(description="as it was then (ISO 8601); without: now")]
DATASETS = f"{NAMESPACE}/datasets"
JOBS = f"{NAMESPACE}/jobs"
State = Literal["NEW", "RUNNING", "COMPLETED", "ABORTED", "FAILED"]
States = Annotated[list[State] | None, Query(alias="lastRunStates")]


def create_app(
    store: Store, api_key: str, counters: Counters, registry: CollectorRegistry, log: BoundLogger
) -> FastAPI:
    """Return the application on a store."""
    app = FastAPI(title="lakehouse lineage", version="1", openapi_url="/api/v1/openapi.json", redoc_url=None)
    answers = Answers(store)
    flows = Flows(answers)
    bearer = HTTPBearer(auto_error=False)

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        if given is None or not secrets.compare_digest(given.credentials.encode(), api_key.encode()):
            raise HTTPException(401, "events are taken with the API key (LINEAGE_API_KEY in .env) as bearer token")

    _answer_errors(app, counters)

    async def posted(request: Request) -> Any:
        try:
            return await posted_json(request)
        except HTTPException:
            counters.refused.labels("body").inc()
            raise

    @app.post("/api/v1/lineage", status_code=201, dependencies=[Depends(allowed)])
    async def lineage_event(request: Request) -> Response:
        replaced = await run_in_threadpool(_take, await posted(request))
        return JSONResponse({"replaced": replaced}, 201) if replaced else Response(status_code=201)

    @app.post("/api/v1/lineage/batch", dependencies=[Depends(allowed)])
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

    @app.get("/health")
    def health() -> Json:
        store.one("SELECT 1")
        return {"healthy": True}

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/api/v1/lineage")
    def get_lineage(
        node: Annotated[str, Query(alias="nodeId")], depth: Annotated[int, Query(ge=0, le=1000)] = 20, at: At = None
    ) -> Json:
        return flows.lineage(node, depth, at)

    @app.get("/api/v1/column-lineage")
    def get_column_lineage(
        node: Annotated[str, Query(alias="nodeId")], depth: Annotated[int, Query(ge=0, le=1000)] = 20,
        downstream: Annotated[bool, Query(alias="withDownstream")] = False, at: At = None,
    ) -> Json:  # fmt: skip
        return flows.column_lineage(node, depth, downstream, at)

    @app.get(DATASETS)
    def datasets(namespace: str, limit: Limit = 100, offset: Offset = 0) -> Json:
        return answers.datasets(namespace, limit, offset)

    @app.get(DATASETS + "/{name:path}/versions/{version}")
    def dataset_version(namespace: str, name: str, version: str) -> Json:
        return answers.version(Name(namespace, name), version)

    @app.get(DATASETS + "/{name:path}/versions")
    def dataset_versions(namespace: str, name: str, limit: Limit = 100, offset: Offset = 0) -> Json:
        return answers.versions(Name(namespace, name), limit, offset)

    @app.get(DATASETS + "/{name:path}")
    def dataset(namespace: str, name: str, at: At = None) -> Json:
        return answers.dataset(Name(namespace, name), at)

    @app.get("/api/v1/jobs")
    def all_jobs(states: States = None, limit: Limit = 100, offset: Offset = 0) -> Json:
        return answers.jobs(None, limit, offset, states)

    @app.get("/api/v1/jobs/runs/{run}")
    def get_run(run: UUID) -> Json:
        return answers.run(run)

    @app.get("/api/v1/jobs/runs/{run}/facets")
    def get_run_facets(run: UUID, type: Annotated[str, Query(pattern="^(run|job)$")] = "run") -> Json:
        return answers.facets(run, type)

    @app.get(JOBS)
    def jobs(namespace: str, states: States = None, limit: Limit = 100, offset: Offset = 0) -> Json:
        return answers.jobs(namespace, limit, offset, states)

    @app.get(JOBS + "/{name:path}/runs")
    def runs(namespace: str, name: str, limit: Limit = 100, offset: Offset = 0) -> Json:
        return answers.runs(Name(namespace, name), limit, offset)

    @app.get(JOBS + "/{name:path}")
    def job(namespace: str, name: str) -> Json:
        return answers.job(Name(namespace, name))

    @app.get("/api/v1/events/lineage")
    def events(
        before: datetime | None = None, after: datetime | None = None, limit: Limit = 100, offset: Offset = 0,
        direction: Annotated[str, Query(alias="sortDirection", pattern="(?i)^(asc|desc)$")] = "desc",
    ) -> Json:  # fmt: skip
        return answers.events(before, after, limit, offset, direction.lower() == "desc")

    @app.get("/api/v1/search")
    def search(
        q: str, kind: Annotated[str | None, Query(alias="filter", pattern="(?i)^(dataset|job)$")] = None,
        sort: Annotated[str, Query(pattern=f"^({'|'.join(ORDERS)})$")] = "NAME", limit: Limit = 10,
    ) -> Json:  # fmt: skip
        return answers.search(q, kind.upper() if kind else None, sort, limit)

    # Last: a namespace's name may hold slashes, and so look like what is in one.
    app.include_router(overview_routes(Overview(store)))
    return app


def _answer_errors(app: FastAPI, counters: Counters) -> None:
    @app.exception_handler(NotKnown)
    def not_known(_: Request, error: NotKnown) -> JSONResponse:
        return JSONResponse({"code": 404, "message": str(error)}, 404)

    @app.exception_handler(NoPeriod)
    def no_period(_: Request, error: NoPeriod) -> JSONResponse:
        return JSONResponse({"code": 400, "message": str(error)}, 400)

    @app.exception_handler(psycopg.DataError)
    @app.exception_handler(psycopg.errors.ProgramLimitExceeded)
    def not_storable(_: Request, error: psycopg.Error) -> JSONResponse:
        counters.refused.labels("value").inc()
        return JSONResponse({"code": 400, "message": f"the store can't hold or look for this: {error}"}, 400)

    @app.exception_handler(psycopg.OperationalError)
    @app.exception_handler(PoolTimeout)
    def away(_: Request, error: Exception) -> JSONResponse:
        counters.refused.labels("store").inc()
        return JSONResponse({"code": 503, "message": f"the store doesn't answer: {type(error).__name__}"}, 503)
