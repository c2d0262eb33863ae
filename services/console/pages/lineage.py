"""Where data comes from, and what is made of it: as a graph to click through."""

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response

from services.console.accounts import Viewer
from services.console.context import Console
from services.lineage.ask import Asking
from services.lineage.draw import DOWNSTREAM, UPSTREAM, indexed, label, merged, reached, within
from services.lineage.errors import CannotTell
from services.lineage.settings import LineageEndpoint

# More can't be read on a screen.
MOST_NODES = 400


def router(console: Console) -> APIRouter:
    """Return the pages' routes."""
    routes = APIRouter()

    def endpoint() -> LineageEndpoint:
        at = console.settings
        return LineageEndpoint(lineage_url=at.lineage_url, source_name=at.source_name)

    @routes.get("/lineage")
    def page(request: Request, who: Viewer, at: str = "") -> Response:
        names = sorted(console.house.tables)
        columns = [c["name"] for c in console.house.tables[at].facts.columns] if at in console.house.tables else []
        return console.page(request, who, "lineage.html", at=at, names=names, columns=columns)

    @routes.get("/lineage/graph")
    def graph(who: Viewer, at: str = "") -> dict[str, Any]:
        del who
        with Asking(endpoint()) as asking:
            if at:
                try:
                    found = asking.find(at)
                except CannotTell as error:
                    raise HTTPException(404, str(error)) from None
                nodes = indexed(asking.graph(found))
                nodes = within(nodes, found.node, (UPSTREAM, DOWNSTREAM))
                ends = {side: reached(nodes, found.node, side) for side in (UPSTREAM, DOWNSTREAM)}
                return {**_graph(nodes, found.node), "title": found.label, **ends}
            parts = []
            for name in sorted(console.house.tables):
                try:
                    parts.append(indexed(asking.graph(asking.find(f"lake.{name}"))))
                except CannotTell:
                    continue
            return {**_graph(merged(parts), None), "title": "The whole lake", "upstream": [], "downstream": []}

    return routes


def _graph(nodes: Mapping[str, Mapping[str, Any]], root: str | None) -> dict[str, Any]:
    """Return nodes and edges, for drawing."""
    kept = dict(list(nodes.items())[:MOST_NODES])
    edges = {(edge["origin"], edge["destination"]) for node in kept.values() for edge in _edges(node)}
    return {
        "nodes": [
            {
                "id": name, "label": label(node), "kind": node["type"].lower(), "root": name == root,
                "table": _table(node),
            }
            for name, node in kept.items()
        ],
        "edges": sorted(edge for edge in edges if edge[0] in kept and edge[1] in kept),
        "left_out": len(nodes) - len(kept),
    }  # fmt: skip


def _edges(node: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (*node["inEdges"], *node["outEdges"])


def _table(node: Mapping[str, Any]) -> str | None:
    """Return the table of the lake that a node is, or is a column of, as the page is asked for it."""
    said = label(node)
    return said.removeprefix("lake.") if said.startswith("lake.") and node["type"] != "JOB" else None
