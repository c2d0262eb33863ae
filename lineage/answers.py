"""Answers: what the store knows, in the shapes of Marquez' read API, so that its UI and clients can be pointed here.

Names of nodes are Marquez': ``dataset:NAMESPACE:NAME``, ``job:NAMESPACE:NAME``, ``datasetField:NAMESPACE:NAME:FIELD``.
Namespaces and names may hold colons themselves: what is known decides. Unlike Marquez, what the graph shows of a node
is what is up and down its stream, not everything that has something in common with it, and it can be asked as of a
moment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from lineage.errors import LineageError
from lineage.graph import Field, Graph
from lineage.names import Name
from lineage.shapes import Json, dataset_of, field_id, fields_of, input_of, run_of, version_of
from lineage.store import Rows, Store

ORDERS = {"NAME": "name", "UPDATE_AT": "updated_at DESC"}


class NotKnown(LineageError):
    """Nothing of that name has been told of."""


@dataclass(frozen=True)
class Answers:
    """What can be asked of a store. Raises NotKnown, and psycopg's errors."""

    store: Store

    def namespaces(self) -> Rows:
        """Namespaces of datasets and jobs."""
        found = self.store.rows(_NAMESPACES)
        return [{"name": row["namespace"], "createdAt": row["since"], "updatedAt": row["at"], "ownerName": "",
                 "description": None, "isHidden": False} for row in found]  # fmt: skip

    def datasets(self, namespace: str, limit: int, offset: int) -> Json:
        """The datasets of a namespace."""
        where = "SELECT {} FROM dataset WHERE namespace = %(namespace)s"
        found = self._page(where, "ORDER BY name", {"namespace": namespace}, limit, offset)
        return {"datasets": [dataset_of(row) for row in found[0]], "totalCount": found[1]}

    def dataset(self, name: Name, at: datetime | None = None) -> Json:
        """A dataset, with the columns that its own are made of."""
        row = self._dataset(name)
        known = Name(row["namespace"], row["name"])
        graph = Graph.at(self.store, at)
        made = [
            {"name": f.name, "inputFields": [input_of(s.field, s.transformations) for s in sources]}
            for f, sources in sorted(graph.columns.items()) if f.dataset == known
        ]  # fmt: skip
        return {**dataset_of(row), "columnLineage": made, "currentVersion": self._newest_version(row["id"])}

    def versions(self, name: Name, limit: int, offset: int) -> Json:
        """What was written of a dataset, newest first, each with the run that wrote it."""
        row = self._dataset(name)
        found = self._page(_VERSIONS, "ORDER BY v.at DESC", {"dataset": row["id"]}, limit, offset)
        return {"versions": [version_of(row, each) for each in found[0]], "totalCount": found[1]}

    def version(self, name: Name, version: str) -> Json:
        """One of them: a snapshot of a table of the lake, say, with what it was made of."""
        row = self._dataset(name)
        query = _VERSIONS.format(_VERSION_COLUMNS) + " AND v.version = %(version)s ORDER BY v.at LIMIT 1"
        found = self.store.one(query, {"dataset": row["id"], "version": version})
        if found is None:
            raise NotKnown(f"no run has told of the version {version} of {name.name}")
        return {**version_of(row, found), "createdByRun": self.run(found["run"])}

    def jobs(self, namespace: str | None, limit: int, offset: int) -> Json:
        """Jobs, of a namespace or all."""
        where = "SELECT {} FROM job j WHERE %(namespace)s::text IS NULL OR namespace = %(namespace)s"
        rows, total = self._page(where, "ORDER BY updated_at DESC", {"namespace": namespace}, limit, offset, "j.*")
        graph = Graph.at(self.store)
        return {"jobs": [self._job(row, graph) for row in rows], "totalCount": total}

    def job(self, name: Name) -> Json:
        """A job, with its newest run."""
        row = self.store.one("SELECT * FROM job WHERE (namespace, name) = (%s, %s)", (name.namespace, name.name))
        if row is None:
            raise NotKnown(f"no job is called {name.name} in {name.namespace}")
        return self._job(row, Graph.at(self.store))

    def runs(self, job: Name, limit: int, offset: int) -> Json:
        """The runs of a job, newest first."""
        where = (
            "SELECT {} FROM run r JOIN job j ON j.id = r.job WHERE (j.namespace, j.name) = (%(namespace)s, %(name)s)"
        )
        rows, total = self._page(where, "ORDER BY r.started_at DESC", {**vars(job)}, limit, offset, _RUN_COLUMNS)
        return {"runs": [run_of(row) for row in rows], "totalCount": total}

    def run(self, identifier: UUID) -> Json:
        """A run, with the datasets (and their versions) that it read and wrote."""
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
        """The facets of a run, or of its job."""
        row = self.store.one(
            "SELECT r.facets AS run, j.facets AS job FROM run r JOIN job j ON j.id = r.job WHERE r.id = %s", (run,)
        )
        if row is None:
            raise NotKnown(f"no event has told of the run {run}")
        return {"runId": str(run), "facets": row["job" if kind == "job" else "run"]}

    def events(self, before: datetime | None, after: datetime | None, limit: int, offset: int, newest: bool) -> Json:
        """Events as they came."""
        where = ("SELECT {} FROM event WHERE at < coalesce(%(before)s, 'infinity'::timestamptz)"
                 " AND at >= coalesce(%(after)s, '-infinity'::timestamptz)")  # fmt: skip
        order = f"ORDER BY at {'DESC' if newest else 'ASC'}, id"
        rows, total = self._page(where, order, {"before": before, "after": after}, limit, offset, "body")
        return {"events": [row["body"] for row in rows], "totalCount": total}

    def search(self, words: str, kind: str | None, order: str, limit: int) -> Json:
        """Datasets and jobs that have these words in their name or another name of theirs."""
        pattern = "%" + words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        found = self.store.rows(
            f"{_SEARCH} ORDER BY {ORDERS[order]} LIMIT %(limit)s", {"words": pattern, "kind": kind, "limit": limit}
        )
        results = [{"name": row["name"], "namespace": row["namespace"], "type": row["type"],
                    "updatedAt": row["updated_at"], "symlinks": row["symlinks"] or [],
                    "nodeId": f"{row['type'].lower()}:{row['namespace']}:{row['name']}"} for row in found]  # fmt: skip
        return {"results": results, "totalCount": len(results)}

    def lineage(self, node: str, depth: int, at: datetime | None = None) -> Json:
        """What is up and down the stream of a dataset or job, within so many jobs, as it was at a moment."""
        graph = Graph.at(self.store, at)
        kind, _, rest = node.partition(":")
        if kind == "job":
            root = _split(rest, graph.jobs)
            if root is None:
                raise NotKnown(f"{_then(at)}no job {rest} is known that reads or writes anything")
            datasets, jobs = graph.around([root], depth, jobs=True), {root}
        else:
            name = self._named(rest)
            if name is None or kind != "dataset":
                raise NotKnown(f"{node} is neither a dataset nor a job that any event has told of")
            datasets, jobs = graph.around([name], depth), set()
        jobs |= {name for name, job in graph.jobs.items() if _within(job.inputs, job.outputs, datasets)}
        return {"graph": [*self._dataset_nodes(graph, datasets, jobs), *self._job_nodes(graph, jobs, datasets)]}

    def column_lineage(self, node: str, depth: int, downstream: bool, at: datetime | None = None) -> Json:
        """The same by column: of one, or of each that a dataset has."""
        graph = Graph.at(self.store, at)
        kind, _, rest = node.partition(":")
        if kind == "dataset":
            name = self._named(rest)
            roots = graph.fields(name) if name else set()
        else:
            dataset, _, column = rest.rpartition(":")
            name = self._named(dataset)
            roots = {Field(name, column)} & graph.fields(name) if name else set()
        if name is None:
            raise NotKnown(f"{node} is no dataset or column that any event has told of")
        if not roots and kind != "dataset":
            raise NotKnown(f"{_then(at)}no event has told what {column} of {name.name} is made of")
        fields = graph.fields_around(roots, depth, downstream)
        return {"graph": self._field_nodes(graph, fields)}

    def _field_nodes(self, graph: Graph, fields: set[Field]) -> Rows:
        about = {name: self._dataset(name)["facets"] for name in {f.dataset for f in fields}}
        types = {Field(name, f["name"]): f.get("type") for name, said in about.items() for f in fields_of(said)}
        targets: dict[Field, list[Field]] = {}
        for at in sorted(fields):
            for source in graph.columns.get(at, ()):
                targets.setdefault(source.field, []).append(at)
        nodes = []
        for at in sorted(fields):
            sources = [s for s in graph.columns.get(at, ()) if s.field in fields]
            links = about[at.dataset].get("symlinks")
            nodes.append({
                "id": field_id(at), "type": "DATASET_FIELD",
                "data": {
                    "namespace": at.dataset.namespace, "dataset": at.dataset.name, "datasetVersion": None,
                    "field": at.name, "fieldType": types.get(at), "facets": {"symlinks": links} if links else {},
                    "transformationDescription": None, "transformationType": None,
                    "inputFields": [{**input_of(s.field, s.transformations), "job": vars(s.job)} for s in sources],
                },
                "inEdges": [{"origin": field_id(s.field), "destination": field_id(at)} for s in sources],
                "outEdges": [{"origin": field_id(at), "destination": field_id(t)} for t in targets.get(at, ())],
            })  # fmt: skip
        return nodes

    def _dataset_nodes(self, graph: Graph, datasets: set[Name], jobs: set[Name]) -> Rows:
        nodes = []
        for name in sorted(datasets):
            node = f"dataset:{name.namespace}:{name.name}"
            writers = [f"job:{j.namespace}:{j.name}" for j in sorted(jobs) if name in graph.jobs[j].outputs]
            readers = [f"job:{j.namespace}:{j.name}" for j in sorted(jobs) if name in graph.jobs[j].inputs]
            nodes.append({
                "id": node, "type": "DATASET", "data": dataset_of(self._dataset(name)),
                "inEdges": [{"origin": job, "destination": node} for job in writers],
                "outEdges": [{"origin": node, "destination": job} for job in readers],
            })  # fmt: skip
        return nodes

    def _job_nodes(self, graph: Graph, jobs: set[Name], datasets: set[Name]) -> Rows:
        nodes = []
        for name in sorted(jobs):
            node, job = f"job:{name.namespace}:{name.name}", graph.jobs[name]
            row = self.store.one("SELECT * FROM job WHERE (namespace, name) = (%s, %s)", (name.namespace, name.name))
            ends = [(at, f"dataset:{at.namespace}:{at.name}") for at in sorted(datasets)]
            nodes.append({
                "id": node, "type": "JOB", "data": self._job(row or {}, graph),
                "inEdges": [{"origin": end, "destination": node} for at, end in ends if at in job.inputs],
                "outEdges": [{"origin": node, "destination": end} for at, end in ends if at in job.outputs],
            })  # fmt: skip
        return nodes

    def _job(self, row: Mapping[str, Any], graph: Graph) -> Json:
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

    def _dataset(self, name: Name) -> dict[str, Any]:
        row = self.store.one(_DATASET, vars(name))
        if row is None:
            raise NotKnown(f"no dataset is called {name.name} in {name.namespace}")
        return row

    def _named(self, text: str) -> Name | None:
        """The dataset that ``NAMESPACE:NAME`` means, by any of its names."""
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


def _within(inputs: set[Name], outputs: set[Name], datasets: set[Name]) -> bool:
    """Whether a job belongs to the picture: both its ends do, as far as it has two."""
    return bool((inputs | outputs) & datasets) and all(not ends or ends & datasets for ends in (inputs, outputs))


def _split(text: str, known: Iterable[Name]) -> Name | None:
    return next((name for name in known if f"{name.namespace}:{name.name}" == text), None)


def _then(at: datetime | None) -> str:
    return f"as of {at.isoformat()}, " if at else ""


_RUN_COLUMNS = """r.id AS run, r.state, r.started_at, r.ended_at, r.updated_at AS run_updated_at,
 r.facets AS run_facets, j.namespace AS job_namespace, j.name AS job"""
_VERSION_COLUMNS = f"v.version, v.at, u.facets, {_RUN_COLUMNS}"
_VERSIONS = """
SELECT {} FROM version v JOIN run r ON r.id = v.run JOIN job j ON j.id = r.job
JOIN use u ON (u.run, u.dataset, u.is_output) = (v.run, v.dataset, v.is_output)
WHERE v.dataset = %(dataset)s AND v.is_output"""
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
_NAMESPACES = """
SELECT namespace, min(created_at) AS since, max(updated_at) AS at
FROM (SELECT namespace, created_at, updated_at FROM dataset
      UNION ALL SELECT namespace, created_at, updated_at FROM job) every
GROUP BY namespace ORDER BY namespace"""
_SEARCH = """
SELECT * FROM (
  SELECT 'DATASET' AS type, d.namespace, d.name, d.updated_at,
         (SELECT array_agg(s.name) FROM symlink s WHERE s.dataset = d.id) AS symlinks
  FROM dataset d
  UNION ALL SELECT 'JOB', namespace, name, updated_at, NULL FROM job
) every
WHERE (%(kind)s::text IS NULL OR type = %(kind)s)
  AND (name ILIKE %(words)s OR array_to_string(symlinks, ' ') ILIKE %(words)s)"""
