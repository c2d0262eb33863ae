"""Answers: what the store knows, in the shapes of Marquez' read API, so that its UI and clients can be pointed here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from lineage.errors import LineageError
from lineage.graph import Graph
from lineage.names import Name
from lineage.shapes import Json, dataset_of, input_of, run_of, version_of
from lineage.store import Rows, Store

ORDERS = {"NAME": "name", "UPDATE_AT": "updated_at DESC"}


class NotKnown(LineageError):
    """Nothing of that name has been told of."""


@dataclass(frozen=True)
class Answers:
    """What can be asked of a store. Raises NotKnown, and psycopg's errors."""

    store: Store

    def datasets(self, namespace: str, limit: int, offset: int) -> Json:
        """Return the datasets of a namespace."""
        where = "SELECT {} FROM dataset WHERE namespace = %(namespace)s"
        found = self._page(where, "ORDER BY name", {"namespace": namespace}, limit, offset)
        return {"datasets": [dataset_of(row) for row in found[0]], "totalCount": found[1]}

    def dataset(self, name: Name, at: datetime | None = None) -> Json:
        """Return a dataset, with the columns that its own are made of."""
        row = self.row(name)
        known = Name(row["namespace"], row["name"])
        graph = Graph.at(self.store, at)
        made = [
            {"name": f.name, "inputFields": [input_of(s.field, s.transformations) for s in sources]}
            for f, sources in sorted(graph.columns.items()) if f.dataset == known
        ]  # fmt: skip
        return {**dataset_of(row), "columnLineage": made, "currentVersion": self._newest_version(row["id"])}

    def versions(self, name: Name, limit: int, offset: int) -> Json:
        """Return what was written of a dataset, newest first, each with the run that wrote it."""
        row = self.row(name)
        found = self._page(_VERSIONS, "ORDER BY v.at DESC", {"dataset": row["id"]}, limit, offset)
        return {"versions": [version_of(row, each) for each in found[0]], "totalCount": found[1]}

    def version(self, name: Name, version: str) -> Json:
        """Return one version: a snapshot of a table of the lake, say, with what it was made of."""
        row = self.row(name)
        query = _VERSIONS.format(_VERSION_COLUMNS) + " AND v.version = %(version)s ORDER BY v.at LIMIT 1"
        found = self.store.one(query, {"dataset": row["id"], "version": version})
        if found is None:
            raise NotKnown(f"no run has told of the version {version} of {name.name}")
        return {**version_of(row, found), "createdByRun": self.run(found["run"])}

    def jobs(self, namespace: str | None, limit: int, offset: int, states: Sequence[str] | None = None) -> Json:
        """Return the jobs, of a namespace or all, whose newest run is in any of these states."""
        given = {"namespace": namespace, "states": list(states) if states else None}
        rows, total = self._page(_JOBS, "ORDER BY updated_at DESC", given, limit, offset, "j.*")
        graph = Graph.at(self.store)
        return {"jobs": [self.job_of(row, graph) for row in rows], "totalCount": total}

    def job(self, name: Name) -> Json:
        """Return a job, with its newest run."""
        return self.job_of(self.job_row(name), Graph.at(self.store))

    def runs(self, job: Name, limit: int, offset: int) -> Json:
        """Return the runs of a job, newest first."""
        where = (
            "SELECT {} FROM run r JOIN job j ON j.id = r.job WHERE (j.namespace, j.name) = (%(namespace)s, %(name)s)"
        )
        rows, total = self._page(where, "ORDER BY r.started_at DESC", {**vars(job)}, limit, offset, _RUN_COLUMNS)
        return {"runs": [run_of(row) for row in rows], "totalCount": total}

    def run(self, identifier: UUID) -> Json:
        """Return a run, with the datasets (and their versions) that it read and wrote."""
        row = self.store.one(
            f"SELECT {_RUN_COLUMNS} FROM run r JOIN job j ON j.id = r.job WHERE r.id = %s", (identifier,)
        )
        if row is None:
            raise NotKnown(f"no event has told of the run {identifier}")
        uses = self.store.rows(_USES, (identifier,))
        told: dict[bool, Rows] = {False: [], True: []}
        for use in uses:
            versions = use["versions"] or []
            newest = {"namespace": use["namespace"], "name": use["name"], "version": versions[-1] if versions else None}
            told[use["is_output"]].append({"datasetVersionId": newest, "versions": versions, "facets": use["facets"]})
        return {**run_of(row), "inputDatasetVersions": told[False], "outputDatasetVersions": told[True]}

    def facets(self, run: UUID, kind: str) -> Json:
        """Return the facets of a run, or of its job."""
        row = self.store.one(
            "SELECT r.facets AS run, j.facets AS job FROM run r JOIN job j ON j.id = r.job WHERE r.id = %s", (run,)
        )
        if row is None:
            raise NotKnown(f"no event has told of the run {run}")
        return {"runId": str(run), "facets": row["job" if kind == "job" else "run"]}

    def events(self, before: datetime | None, after: datetime | None, limit: int, offset: int, newest: bool) -> Json:
        """Return events as they came."""
        where = ("SELECT {} FROM event WHERE at < coalesce(%(before)s, 'infinity'::timestamptz)"
                 " AND at >= coalesce(%(after)s, '-infinity'::timestamptz)")  # fmt: skip
        order = f"ORDER BY at {'DESC' if newest else 'ASC'}, id"
        rows, total = self._page(where, order, {"before": before, "after": after}, limit, offset, "body")
        return {"events": [row["body"] for row in rows], "totalCount": total}

    def search(self, words: str, kind: str | None, order: str, limit: int) -> Json:
        """Return datasets and jobs that have these words in their name or another name of theirs."""
        pattern = "%" + words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        found = self.store.rows(
            f"{_SEARCH} ORDER BY {ORDERS[order]} LIMIT %(limit)s", {"words": pattern, "kind": kind, "limit": limit}
        )
        results = [{"name": row["name"], "namespace": row["namespace"], "type": row["type"],
                    "updatedAt": row["updated_at"], "symlinks": row["symlinks"] or [],
                    "nodeId": f"{row['type'].lower()}:{row['namespace']}:{row['name']}"} for row in found]  # fmt: skip
        return {"results": results, "totalCount": len(results)}

    def job_of(self, row: Mapping[str, Any], graph: Graph) -> Json:
        """Return a job, with its newest runs."""
        name = Name(row["namespace"], row["name"])
        node = graph.jobs.get(name)
        newest = self.store.rows(
            f"SELECT {_RUN_COLUMNS} FROM run r JOIN job j ON j.id = r.job WHERE r.job = %s"
            " ORDER BY r.started_at DESC LIMIT 10", (row["id"],)
        )  # fmt: skip
        runs = [run_of(run) for run in newest]
        facets = row["facets"]
        streams = (facets.get("jobType") or {}).get("processingType") == "STREAMING"
        return {
            "id": vars(name), "type": "STREAM" if streams else "BATCH", "name": name.name, "simpleName": name.name,
            "namespace": name.namespace, "createdAt": row["created_at"], "updatedAt": row["updated_at"],
            "inputs": [vars(each) for each in sorted(node.inputs)] if node else [],
            "outputs": [vars(each) for each in sorted(node.outputs)] if node else [],
            "location": (facets.get("sourceCodeLocation") or {}).get("url"), "tags": [],
            "description": (facets.get("documentation") or {}).get("description"), "facets": facets,
            "latestRun": runs[0] if runs else None, "latestRuns": runs,
            "parentJobName": None, "parentJobUuid": None,
        }  # fmt: skip

    def job_row(self, name: Name) -> dict[str, Any]:
        """Return what is kept of a job."""
        row = self.store.one("SELECT * FROM job WHERE (namespace, name) = (%s, %s)", (name.namespace, name.name))
        if row is None:
            raise NotKnown(f"no job is called {name.name} in {name.namespace}")
        return row

    def row(self, name: Name) -> dict[str, Any]:
        """Return what is kept of a dataset, by any of its names."""
        row = self.store.one(_DATASET, vars(name))
        if row is None:
            raise NotKnown(f"no dataset is called {name.name} in {name.namespace}")
        return row

    def named(self, text: str) -> Name | None:
        """Return the dataset that ``NAMESPACE:NAME`` means, by any of its names."""
        for at in (i for i, letter in enumerate(text) if letter == ":"):
            row = self.store.one(_DATASET, {"namespace": text[:at], "name": text[at + 1 :]})
            if row is not None:
                return Name(row["namespace"], row["name"])
        return None

    def _newest_version(self, dataset: int) -> str | None:
        row = self.store.one(
            "SELECT version FROM version WHERE dataset = %s AND is_output ORDER BY at DESC LIMIT 1", (dataset,)
        )
        return row["version"] if row else None

    def _page(
        self, query: str, order: str, given: Mapping[str, Any], limit: int, offset: int, columns: str = "*"
    ) -> tuple[Rows, int]:
        wanted = _VERSION_COLUMNS if query is _VERSIONS else columns
        total = self.store.one(query.format("count(*) AS total"), given)
        rows = self.store.rows(
            f"{query.format(wanted)} {order} LIMIT %(limit)s OFFSET %(offset)s",
            {**given, "limit": limit, "offset": offset},
        )
        return rows, total["total"] if total else 0


_RUN_COLUMNS = """r.id AS run, r.state, r.started_at, r.ended_at, r.updated_at AS run_updated_at,
 r.facets AS run_facets, j.namespace AS job_namespace, j.name AS job"""
_VERSION_COLUMNS = f"v.version, v.at, u.facets, {_RUN_COLUMNS}"
_VERSIONS = """
SELECT {} FROM version v JOIN run r ON r.id = v.run JOIN job j ON j.id = r.job
JOIN use u ON (u.run, u.dataset, u.is_output) = (v.run, v.dataset, v.is_output)
WHERE v.dataset = %(dataset)s AND v.is_output"""
_JOBS = """
SELECT {} FROM job j WHERE (%(namespace)s::text IS NULL OR namespace = %(namespace)s) AND (%(states)s::text[] IS NULL
  OR (SELECT r.state FROM run r WHERE r.job = j.id ORDER BY r.started_at DESC LIMIT 1) = ANY (%(states)s))"""
_USES = """
SELECT d.namespace, d.name, u.is_output, u.facets,
       (SELECT array_agg(v.version ORDER BY v.at) FROM version v
        WHERE (v.run, v.dataset, v.is_output) = (u.run, u.dataset, u.is_output)) AS versions
FROM use u JOIN dataset d ON d.id = u.dataset WHERE u.run = %s ORDER BY 3, 1, 2"""
_DATASET = """
SELECT d.* FROM dataset d WHERE (d.namespace, d.name) = (%(namespace)s, %(name)s)
UNION ALL
SELECT d.* FROM symlink s JOIN dataset d ON d.id = s.dataset
WHERE (s.namespace, s.name) = (%(namespace)s, %(name)s)
LIMIT 1"""
_SEARCH = """
SELECT * FROM (
  SELECT 'DATASET' AS type, d.namespace, d.name, d.updated_at,
         (SELECT array_agg(s.name) FROM symlink s WHERE s.dataset = d.id) AS symlinks
  FROM dataset d
  UNION ALL SELECT 'JOB', namespace, name, updated_at, NULL FROM job
) every
WHERE (%(kind)s::text IS NULL OR type = %(kind)s)
  AND (name ILIKE %(words)s OR array_to_string(symlinks, ' ') ILIKE %(words)s)"""
