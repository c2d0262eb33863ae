"""Ask: the lineage service, over its endpoint."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from services.lineage.errors import CannotTell
from services.lineage.settings import LineageEndpoint
from services.stack.errors import Unreachable

Json = dict[str, Any]
DEPTH = 100


@dataclass(frozen=True)
class Found:
    """A dataset, and one of its columns if one is meant. ``label``: what people call it."""

    namespace: str
    name: str
    label: str
    column: str | None = None

    @property
    def node(self) -> str:
        """Its name in graphs."""
        kind, column = ("datasetField", f":{self.column}") if self.column else ("dataset", "")
        return f"{kind}:{self.namespace}:{self.name}{column}"


class Asking:
    """One conversation with the service. Raises Unreachable and CannotTell."""

    def __init__(self, endpoint: LineageEndpoint) -> None:
        self._url, self._source = endpoint.lineage_url, endpoint.source_name
        self._client = httpx.Client(base_url=self._url, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def find(self, text: str) -> Found:
        """Return what is meant by a name.

        It is ``orders``, ``shop.orders``, ``lake.shop.orders``, ``orders.total``, or a full name of any dataset, with
        its namespace and a colon before it where the name alone isn't enough.
        """
        found = self._named(text)
        if found is None and "." in text:
            rest, _, column = text.rpartition(".")
            table = self._named(rest)
            if table is not None:
                self._check_column(table, column)
                found = Found(table.namespace, table.name, f"{table.label}.{column}", column)
        if found is None:
            raise CannotTell(f"no dataset of lineage is called {text}: `lakehouse table list` shows the lake's tables,"
                             f" and {self._url}/api/v1/search?q=… finds others")  # fmt: skip
        return found

    def tables(self) -> list[Found]:
        """Return every table that is mirrored."""
        return sorted(self._mirrored(self._every(self._source)), key=lambda found: found.label)

    def graph(self, at: Found, when: datetime | None = None) -> list[Json]:
        """Return what is up and down its stream."""
        given = {"nodeId": at.node, "depth": DEPTH, **({"at": when.isoformat()} if when else {})}
        path = "/api/v1/column-lineage" if at.column else "/api/v1/lineage"
        if at.column:
            given["withDownstream"] = "true"
        return list(self._get(path, given)["graph"])

    def run(self, identifier: str) -> Json:
        """Return a run, with what it read and wrote."""
        return self._get(f"/api/v1/jobs/runs/{identifier}")

    def version(self, at: Found, version: str) -> Json:
        """Return a version of a dataset, with the run that made it."""
        path = f"/api/v1/namespaces/{quote(at.namespace, safe='')}/datasets/{quote(at.name, safe='')}"
        return self._get(f"{path}/versions/{quote(version, safe='')}")

    def _named(self, text: str) -> Found | None:
        short = text.removeprefix("lake.")
        words = text.rpartition(":")[2].removeprefix("lake.").rpartition(".")[2]
        every = self._every(words)
        in_lake = [f for f in every if f.label.startswith("lake.") and f.label != f.name]
        mirrored = self._mirrored(in_lake)
        for candidates in (
            [f for f in every if f"{f.namespace}:{f.name}" == text],
            [f for f in in_lake if f.label == f"lake.{short}"],
            # A table before what is made of it under the same name.
            [f for f in mirrored if "." not in short and f.label.endswith(f".{short}")],
            [f for f in in_lake if "." not in short and f.label.endswith(f".{short}")],
            [f for f in every if f.name == text],
        ):
            if len(candidates) > 1:
                names = _listed(f"{f.namespace}:{f.name}" for f in candidates)
                raise CannotTell(f"{text} may be one of {names}: name it so")
            if candidates:
                return candidates[0]
        return None

    def _every(self, words: str) -> list[Found]:
        """Return datasets that have these words in a name, by each of their names."""
        results = self._get("/api/v1/search", {"q": words, "filter": "DATASET", "limit": 10_000})["results"]
        return [Found(r["namespace"], r["name"], f"lake.{link}" if link else r["name"])
                for r in results for link in (r["symlinks"] or [None])]  # fmt: skip

    def _mirrored(self, among: list[Found]) -> list[Found]:
        return [f for f in among if f.label.startswith((f"lake.{self._source}.", f"lake.{self._source}_"))]

    def _check_column(self, table: Found, column: str) -> None:
        nodes = self._get("/api/v1/column-lineage", {"nodeId": table.node, "depth": 0})["graph"]
        known = sorted({node["data"]["field"] for node in nodes})
        if column not in known:
            raise CannotTell(f"{table.label} has no column {column} in lineage; it has {_listed(known) or 'none'}")

    def _get(self, path: str, given: Json | None = None) -> Json:
        try:
            answer = self._client.get(path, params=given)
        except httpx.HTTPError as error:
            raise Unreachable("The lineage service", self._url, type(error).__name__) from None
        if answer.status_code in (400, 404, 422):
            raise CannotTell(_said(answer))
        if answer.is_error:
            raise Unreachable("The lineage service", self._url, _said(answer))
        found: Json = answer.json()
        return found


def _said(answer: httpx.Response) -> str:
    try:
        told = answer.json()
    except ValueError:
        return f"it answers {answer.status_code}"
    return str(told.get("message") or told.get("detail") or told)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
