"""The endpoint: takes OpenLineage events from whoever sends them, and answers as Marquez does.

Without an API key nothing is taken; reading needs none. Interactive documentation is at ``/docs``.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import psycopg
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from psycopg_pool import PoolTimeout
from structlog.stdlib import BoundLogger

from lineage.answers import ORDERS, Answers, NotKnown
from lineage.flows import Flows
from lineage.names import Name
from lineage.overview import Overview
from lineage.periods import NoPeriod
from lineage.shapes import Json
from lineage.store import Store
from services.lineage.counters import Counters
from services.lineage.intake import intake_routes
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
    _answer_errors(app, counters)

    app.include_router(intake_routes(store, api_key, counters, log))

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
