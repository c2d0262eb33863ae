"""Overview: the routes to what is known as a whole, as Marquez' UI asks for it on its first page."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from lineage.overview import Overview
from lineage.periods import intervals
from lineage.shapes import Json
from lineage.store import Rows

Limit = Annotated[int, Query(ge=1, le=10_000)]
Offset = Annotated[int, Query(ge=0)]
# Names hold slashes, as in locations of tables.
NAMESPACE = "/api/v1/namespaces/{namespace:path}"


def overview_routes(overview: Overview) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    @routes.get("/api/v1/namespaces")
    def namespaces(limit: Limit = 10_000, offset: Offset = 0) -> Json:
        return {"namespaces": overview.namespaces(limit, offset)}

    @routes.get(NAMESPACE)
    def namespace(namespace: str) -> Json:
        return overview.namespace(namespace)

    @routes.get("/api/v1/sources")
    def sources(limit: Limit = 100, offset: Offset = 0) -> Json:
        return {"sources": overview.sources(limit, offset)}

    @routes.get("/api/v1/sources/{name:path}")
    def source(name: str) -> Json:
        return overview.source(name)

    @routes.get("/api/v1/stats/lineage-events")
    def event_statistics(period: str, timezone: str | None = None) -> Rows:
        return overview.events(intervals(period, timezone, datetime.now(UTC)))

    @routes.get("/api/v1/stats/{asset}")
    def statistics(asset: Literal["jobs", "datasets", "sources"], period: str, timezone: str | None = None) -> Rows:
        return overview.known(asset, intervals(period, timezone, datetime.now(UTC)))

    @routes.get("/api/v1/tags")
    def tags(limit: Limit = 10_000, offset: Offset = 0) -> Json:
        return {"tags": overview.tags(limit, offset)}

    return routes
